"""What profilers find after a run: those of the run, and those that a phase needs (`Phase.capture`)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from llmbx.model import Capture, Finding, Launch, Phase, RunSpec
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Record, Run
from llmbx.run.artifacts import analyze_artifacts
from llmbx.run.launch import Rendered, captured_by
from llmbx.run.verdict import Verdict

COMPLETED = Verdict(status="completed", data_valid=True)


@pytest.fixture
def plugins() -> Plugins:
    """Profilers that miss their file: an error of each."""

    def ask(name: str, hook: str, **_: Any) -> list[list[Finding]]:
        assert hook == "analyze"
        return [[Finding(rule="profile_missing", problem=f"{name} wrote no profile", fix="again")]]

    return cast(Plugins, SimpleNamespace(ask=ask))


@pytest.mark.parametrize(
    ("requested", "captured_by", "status", "warnings"),
    [
        (("a",), (), "failed", ()),
        ((), ("b",), "completed", ("b wrote no profile; again",)),
        (("a",), ("b",), "failed", ("b wrote no profile; again",)),
        ((), (), "completed", ()),
    ],
)
def test_a_profile_that_the_user_did_not_request_is_missed_with_a_warning(
    requested: tuple[str, ...], captured_by: tuple[str, ...], status: str, warnings: tuple[str, ...],
    plugins: Plugins, make_spec: Callable[..., RunSpec],
) -> None:  # fmt: skip
    record = Record(
        run_id="r",
        spec=make_spec(profilers=requested),
        created=0,
        llmbx_version="0",
        command=(),
        captured_by=captured_by,
    )
    verdict, found = analyze_artifacts(Run(folder="/nowhere", record=record), plugins, COMPLETED)
    assert (verdict.status, found) == (status, warnings)
    assert verdict.data_valid and verdict.cause == ("a wrote no profile; again" if requested else None)


def test_the_record_names_the_profilers_that_a_phase_needs(make_spec: Callable[..., RunSpec]) -> None:
    """Once each, without those of the run, and without a tool that is no profiler (JAX profiles by itself)."""

    def phase(role: str, tool: str) -> Phase:
        return Phase(role=role, argv=(role,), capture=Capture(start=0, stop=1, tool=tool))

    phases = (phase("warm", "b"), phase("collect", "b"), phase("measure", "a"), phase("other", "jax"))
    launch = Launch(nodes=1, ranks_per_node=1, gpus_per_rank=0, phases=phases)
    known = cast(Plugins, SimpleNamespace(profilers=lambda: ("a", "b")))
    found = captured_by(make_spec(profilers=("a",)), launch, known)
    assert Rendered(launch, (), "", found).recorded == {
        "commands": {"warm": ("warm",), "collect": ("collect",), "measure": ("measure",), "other": ("other",)},
        "captured_by": ("b",),
    }
