"""Configuration rows with printed values that contradict each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llmbx.config.profiles import Config
from llmbx.model import Finding, Recipe, Row, RunSpec, Size, Workload
from llmbx.plugins.manager import Plugins
from llmbx_analysis.audit.rows import disputed_rows

from .conftest import SHAPE

ROW = Row(size="1b", dtypes=("bf16",), gpu_types=("h100",), gpus=("64-128",), tp=4, pp=4, vp=2, gbs="GPUs*2")


def workload(**changes: Any) -> Workload:
    recipe = Recipe(name="r", title="The recipe", released="1.0", source="somewhere", driver="d",
                    rows=(ROW.replace(**changes),))  # fmt: skip
    return Workload(name="toy", title="Toy", folder="toy", sizes={"1b": Size(model=SHAPE)}, recipes=(recipe,))


def split(spec: RunSpec) -> list[Finding]:
    """A rule of a framework: the layers must be divisible by PP x VP."""
    parts = spec.parallelism.pp * (spec.parallelism.vp or 1)
    if spec.model.layers % parts == 0:
        return []
    return [Finding(rule="layers", problem=f"{spec.model.layers} layers do not split into {parts}", fix="")]


def audit(framework: Callable[..., Plugins], **changes: Any) -> list[tuple[int, str, Any, Any, str | None]]:
    one = workload(**changes)
    plugins = framework([one], split)
    found = disputed_rows(plugins.workloads[0], plugins, Config())
    return [(d.gpus, d.field, d.published, d.recomputed, d.reason) for d in found]


def test_consistent_rows_are_not_disputed(framework: Callable[..., Plugins]) -> None:
    assert audit(framework, printed={"dp": "GPUs/16", "ga": 32}) == []
    assert audit(framework) == []


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ({"dp": "GPUs/8"}, [(64, "dp", 8, 4), (128, "dp", 16, 8)]),
        ({"dp": 4}, [(128, "dp", 4, 8)]),
        ({"ga": 16}, [(64, "ga", 16, 32), (128, "ga", 16, 32)]),
        ({"vp": 3}, [(64, "vp", 3, 2), (128, "vp", 3, 2)]),
    ],
)
def test_an_inconsistent_printed_value_is_disputed(
    framework: Callable[..., Plugins], printed: dict[str, Any], expected: list[tuple[int, str, int, int]]
) -> None:
    found = audit(framework, printed=printed)
    assert [item[:4] for item in found] == expected
    assert all(item[4] for item in found)


def test_a_violated_rule_of_the_framework_is_the_reason(framework: Callable[..., Plugins]) -> None:
    found = audit(framework, vp=3, gpus=("64",))
    assert [(item[1], item[4]) for item in found] == [("layers", "16 layers do not split into 12")]
