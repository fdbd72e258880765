"""Several plugins that predict a run: a third party's before llmbx's own, and a known time before none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.config.install import Install
from llmbx.model import RunSpec
from llmbx.plugins.manager import Plugins

from .conftest import Package

PREDICTS = """
from llmbx import hookimpl
from llmbx.model import Bounds, Expected

@hookimpl
def predict_run(spec, install):
    return {answer}
"""


@pytest.mark.parametrize(
    ("answers", "source"),
    [
        (["Expected(step_time_s=Bounds(value=1.0), source='mine')"], "mine"),
        (["None", "Expected(step_time_s=Bounds(value=1.0), source='second')"], "second"),
        (
            ["Expected(unknown_because='why', source='first')", "Expected(step_time_s=Bounds(value=2.0), source='b')"],
            "b",
        ),
        (["Expected(unknown_because='why', source='first')"], "first"),
    ],
)
def test_who_predicts(
    package: Package, loaded: Callable[[], Plugins], make_spec: Callable[..., RunSpec], tmp_path: Path,
    answers: list[str], source: str,
) -> None:  # fmt: skip
    for place, answer in enumerate(answers):
        package(f"p{place}", PREDICTS.format(answer=answer))
    found = loaded().predict_run(make_spec(gpu_type="tpu"), Install(root=str(tmp_path), origin="test"))
    assert found is not None and found.source == source
