"""The look at every node before the framework starts: one short step in the same job, in the run's own container."""

from __future__ import annotations

from collections.abc import Callable

from llmbx.catalog.hardware import builtin
from llmbx.errors import UsageError
from llmbx.launchers import script
from llmbx.model import Launch, Phase, RunSpec, Wrapping
from llmbx.model.launch import PREFLIGHT

OUTPUT = "preflight.out"
MINUTES = 10
"""How long the step may take: an image that is unpacked on every node takes its time."""


def phase(spec: RunSpec, launch: Launch) -> Phase:
    """One task on each node, in the environment of the first phase."""
    assert spec.preflight is not None
    expected = str(min(spec.gpus, spec.gpus_per_node))
    kind = spec.gpu_type if spec.gpu_type in builtin() else "any"  # how a type of the user's own is called, who knows
    argv = ("/bin/sh", "preflight.sh", expected, kind, *spec.preflight.repositories)
    return Phase(role=PREFLIGHT, argv=argv, env=launch.phases[0].env)


def with_preflight(spec: RunSpec, launch: Launch) -> Launch:
    """A launch of the look alone. Raises `UsageError` for a launch that has a phase of the same name."""
    if any(one.role == PREFLIGHT for one in launch.phases):
        raise UsageError(
            f"phase '{PREFLIGHT}': llmbx's own look at the nodes has this role; switch it off (--no-preflight)"
        )
    files = {"preflight.sh": script.shell("preflight.sh", __package__).encode()}
    return Launch(
        nodes=launch.nodes, ranks_per_node=1, gpus_per_rank=launch.gpus_per_rank * launch.ranks_per_node,
        phases=(phase(spec, launch),), files=files,
    )  # fmt: skip


def blocks(
    spec: RunSpec, launch: Launch, wrapping: Wrapping, srun: Callable[[RunSpec, Launch, Phase, Wrapping], list[str]]
) -> tuple[list[str], list[str]]:
    """The functions of the script, and the lines that look at the nodes once its setup is done; empty without a look.

    `wrapping` is the first phase's, so that the look proves that the run's container starts. `srun` starts a phase.
    """
    if spec.preflight is None:
        return [], []
    look = with_preflight(spec, launch)
    (one,) = look.phases
    start = srun(spec, look, one, wrapping)
    start += ["--kill-on-bad-exit=0", f"--output={OUTPUT}", f"--time={MINUTES}"]  # the last word of an option counts
    functions = [script.shell("preflight_all.sh", __package__), script.rank_function(spec, one, wrapping, start)]
    return functions, [script.files(look), f"look_at_nodes {launch.nodes}"]
