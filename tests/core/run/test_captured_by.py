"""The profilers that only a phase of the launch needs (`Phase.capture`)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from llmbx.model import Capture, Launch, Phase, RunSpec
from llmbx.plugins.manager import Plugins
from llmbx.run.launch import Rendered, captured_by


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
