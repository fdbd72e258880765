"""Suspected nodes are left out of sweeps and retries, unless the user says otherwise, and that is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.config.install import Install
from llmbx.model import RunSpec
from llmbx.plugins.manager import load
from llmbx.run.retry import without_suspects
from llmbx_accept.memory import suspects as memory

MakeSpec = Callable[..., RunSpec]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """An install of 20 nodes of which three are suspected, n7 the worst."""
    reasons = {name: f"{name} broke" for name in ("n7", "n3", "n5")}
    monkeypatch.setattr(memory, "_suspects", lambda install: (reasons, 20))
    return Install(root=str(tmp_path), origin="test")


def excluded(make_spec: MakeSpec, install: Install, occasion: str, **settings: object) -> tuple[str | None, list[str]]:
    spec = make_spec(gpu_type="h100", launcher="slurm", plugin_settings={"slurm": {}, **settings})
    fewer, lines = without_suspects(spec, load(), install, occasion)
    return fewer.plugin_settings["slurm"].get("sbatch", {}).get("exclude"), lines


def test_sweeps_and_retries_leave_out_the_worst_tenth_and_say_so(make_spec: MakeSpec, install: Install) -> None:
    for occasion in ("sweep", "retry"):
        nodes, lines = excluded(make_spec, install, occasion)
        assert nodes == "n7,n3"
        assert lines[0] == "without n7: n7 broke; --no-exclude-suspects uses it"


def test_a_run_leaves_them_out_if_the_user_asks_for_it(make_spec: MakeSpec, install: Install) -> None:
    assert excluded(make_spec, install, "run") == (None, [])
    asked = {"accept": {"exclude_suspects": True}}
    assert excluded(make_spec, install, "run", **asked)[0] == "n7,n3,n5"


def test_the_user_can_use_them(make_spec: MakeSpec, install: Install) -> None:
    refused = {"accept": {"exclude_suspects": False}}
    assert excluded(make_spec, install, "retry", **refused) == (None, [])


def test_nodes_that_the_user_named_are_used(make_spec: MakeSpec, install: Install) -> None:
    named = {"slurm": {"sbatch": {"nodelist": "n7,n8"}}}
    assert excluded(make_spec, install, "sweep", **named) == (None, [])
