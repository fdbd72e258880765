"""Comparison of a final configuration with upstream's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llmbx.model import ExpectedConfiguration, Permitted, RunSpec

UPSTREAM: dict[str, Any] = {
    "launch.nodes": 2,
    "log.dir": "$CWD/log",
    "model.layers": 32,
    "model.rope": None,
    "optim.lr": 1.0,
    "profile.ranks": [0],
    "profile.start": 45,
}
EXPECTED = ExpectedConfiguration(
    upstream=UPSTREAM,
    other=("launch.",),
    permitted=(
        Permitted(keys=("log.*",), reason="another folder"),
        Permitted(keys=("profile",), reason="profiled on request only"),
        Permitted(keys=("model.rope",), reason="the version lacks it", absent=True),
    ),
)


def differing(**changes: Any) -> dict[str, tuple[Any, Any, str | None]]:
    """The differences of a configuration that is upstream's but for changes; ... removes a key."""
    names = {name.replace("__", "."): value for name, value in changes.items()}
    final = {key: value for key, value in {**UPSTREAM, **names}.items() if value is not ...}
    found = EXPECTED.differences(final)
    assert [each.key for each in found] == sorted(each.key for each in found)
    return {each.key: (each.upstream, each.final, each.reason) for each in found}


def test_equal_values_are_no_difference() -> None:
    assert differing() == {}
    assert differing(optim__lr=1) == {}, "JSON has one kind of number"
    assert differing(launch__nodes=4, launch__env="x") == {}, "the launch is not compared"


def test_a_difference_has_both_values() -> None:
    assert differing(model__layers=16) == {"model.layers": ((32,), (16,), None)}
    assert differing(model__layers=...) == {"model.layers": ((32,), (), None)}
    assert differing(model__heads=None) == {"model.heads": ((), (None,), None)}, "null is a value, a missing key is not"


@pytest.mark.parametrize(("name", "value"), [("optim__lr", True), ("profile__ranks", [False]), ("model__rope", 0)])
def test_a_truth_value_is_not_a_number(name: str, value: object) -> None:
    assert len(differing(**{name: value})) == 1


def test_a_permitted_difference_has_its_reason() -> None:
    assert differing(log__dir=None)["log.dir"][2] == "another folder"
    removed = differing(profile__ranks=..., profile__start=..., profile=None)
    assert [reason for _, _, reason in removed.values()] == ["profiled on request only"] * 3


def test_a_field_may_be_missing_but_not_differ() -> None:
    assert differing(model__rope=...)["model.rope"][2] == "the version lacks it"
    assert differing(model__rope=1)["model.rope"][2] is None


def test_what_is_not_permitted_is_left() -> None:
    found = EXPECTED.differences({**UPSTREAM, "log.dir": 1, "model.layers": 1})
    assert [each.key for each in found if each.reason is None] == ["model.layers"]
    assert found[0].row() == {"key": "log.dir", "upstream": "$CWD/log", "final": 1, "reason": "another folder"}
    assert EXPECTED.differences({})[-1].row() == {
        "key": "profile.start", "upstream": 45, "reason": "profiled on request only",
    }  # fmt: skip


def test_without_upstreams_values_nothing_is_compared() -> None:
    unknown = ExpectedConfiguration()
    assert unknown.differences({"a": 1}) == [] and unknown.compared({"a": 1}) == []
    assert len(EXPECTED.compared({"a": 1})) == 7


def test_without_upstreams_values_the_requested_ones_are_compared() -> None:
    asked = ExpectedConfiguration(requested={"a": 1, "b": 2}, permitted=(Permitted(keys=("b",), reason="a folder"),))
    found = asked.differences({"a": 3, "b": 4, "c": 5})
    assert [(each.key, each.final, each.reason) for each in found] == [("a", (3,), None), ("b", (4,), "a folder")]
    assert EXPECTED.replace(requested={"optim.lr": 2.0}).differences(UPSTREAM) == [], "upstream's precede them"


def test_a_configuration_is_named_by_size_dtype_gpu_type_and_gpus(make_spec: Callable[..., RunSpec]) -> None:
    spec = make_spec(size="8b", dtype="fp8", gpu_type="h100", gpus=8)
    assert spec.configuration_key == "8b/fp8/h100/8"
