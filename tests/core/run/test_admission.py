"""Broken rules stop a run before it starts; `--force` overrides them and the record says which."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmbx.errors import UsageError
from llmbx.model import Finding, RunSpec
from llmbx.run.context import admit

MakeSpec = Callable[..., RunSpec]
TOPOLOGY = Finding(rule="topology", problem="TP 3 does not divide 8 GPUs", fix="use --set tp=2")
BATCH = Finding(rule="gbs", problem="the batch is odd", fix="use --set gbs=4")
SLOW = Finding(rule="emulated_bf16", problem="this CPU has no BF16", fix="omit --dtype", warning=True)


def test_without_errors_a_run_is_admitted_as_it_is(make_spec: MakeSpec) -> None:
    spec = make_spec()
    assert admit(spec, [], force=False) == admit(spec, [SLOW], force=False) == admit(spec, [SLOW], force=True) == spec


def test_every_error_is_listed_with_its_fix(make_spec: MakeSpec) -> None:
    with pytest.raises(UsageError) as refused:
        admit(make_spec(), [TOPOLOGY, SLOW, BATCH], force=False)
    assert str(refused.value).splitlines() == [
        "line mini cannot run (2 problems; --force overrides):",
        "  TP 3 does not divide 8 GPUs; use --set tp=2",
        "  the batch is odd; use --set gbs=4",
    ]
    with pytest.raises(UsageError, match=r"\(1 problem; --force overrides\)"):
        admit(make_spec(), [TOPOLOGY], force=False)


def test_with_force_the_overridden_rules_are_recorded_once(make_spec: MakeSpec) -> None:
    spec = make_spec()
    admitted = admit(spec, [TOPOLOGY, SLOW, BATCH, TOPOLOGY], force=True)
    assert admitted == spec.replace(forced=("topology", "gbs"))
