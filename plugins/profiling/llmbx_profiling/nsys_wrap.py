"""A launch with nsys around the ranks and phases that are to be profiled. Pure: launch in, launch out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import resources

from llmbx.model import Capture, Launch, Mount, Phase, Prefix, ProfileSpec, RunSpec, Value
from llmbx.resolve.ranks import numbers, spell
from llmbx.secrets import HARMLESS, SECRET

from .lending import LIBRARIES, Lent
from .names import DOMAIN, FOLDER, for_nsys, template, wildcard

TOOL = "nsys"
ASKED = f"{FOLDER}/asked.json"
"""What was asked for, beside the files: what `collect` and `llmbx nsys` know ranks and steps from."""
SHIELD = f"{FOLDER}/no-secrets.sh"
"""Starts a rank without secrets in its environment."""
START = f"{FOLDER}/start.sh"
"""Stands around nsys and again inside it, to know whether nsys got as far as starting the program."""

_QUIET = ("--sample=none", "--cpuctxsw=none")
# CPU sampling needs rights that few machines give, and answers nothing that is asked here.
_ON_CPU = ("--trace=nvtx", *_QUIET, "--capture-range=nvtx", f"--nvtx-capture=profile@{DOMAIN}")
_ON_GPU = ("--trace=cuda,nvtx", *_QUIET, "--capture-range=cudaProfilerApi", "--cuda-graph-trace=node")


class Asked(Value, frozen=True):
    """One set of files that is to exist after a run: of which phase, by which name, from which ranks, which steps.

    `steps` is [start, stop) from zero. `name` is a path in the run folder without its ending, with rank fields left.
    """

    role: str
    name: str
    ranks: tuple[int, ...]
    steps: tuple[int, int]
    required: bool = True


def wrap(
    spec: RunSpec, launch: Launch, command: str = "nsys", lent: Lent | None = None
) -> tuple[Launch, tuple[Asked, ...]]:
    """`launch` with nsys (named or found by `command` where a rank runs) around every phase that is to be profiled.

    Where `command` is not found there, the machine's nsys that is `lent` takes its place.

    The phase that is measured gets the profile of `spec.profile`; a phase with a `capture` by nsys gets that one
    instead, so that there is never one nsys inside another. Also says which files the run then has to leave.
    """
    measured = measured_phase(launch)
    asked: list[Asked] = []
    phases: list[Phase] = []
    for phase in launch.phases:
        wanted = _wanted(spec, launch, phase, phase is measured)
        if wanted:
            asked.append(wanted)
            phase = _wrapped(spec, launch, phase, wanted, (lent.program if lent else "", command))
        phases.append(phase)
    if not asked:
        return launch, ()
    scripts = {SHIELD: shield(), START: _script("start.sh")}
    files = {**launch.files, **scripts, ASKED: describe(asked, launch)}
    mounts = (*launch.mounts, *_mounts(lent)) if lent else launch.mounts
    return launch.replace(phases=tuple(phases), files=files, mounts=mounts), tuple(asked)


def shield() -> bytes:
    """The script that starts a rank without what llmbx calls a secret: the same expressions, in the words of sed."""
    text = _script("no_secrets.sh").decode()
    return text.replace("s/HARMLESS/", f"s/{HARMLESS}/").replace("/SECRET/", f"/{SECRET}/").encode()


def _mounts(lent: Lent) -> list[Mount]:
    places = {lent.folder: lent.folder, **{path: f"{LIBRARIES}/{name}" for name, path in lent.libraries.items()}}
    return [
        Mount(source=source, target=None if target == source else target, read_only=True, optional=True)
        for source, target in places.items()
    ]


def measured_phase(launch: Launch) -> Phase | None:
    """The phase that trains and is measured: the last one of all ranks that takes no profile of its own."""
    open_phases = [phase for phase in launch.phases if phase.ranks == "all" and phase.capture is None]
    return open_phases[-1] if open_phases else None


def describe(asked: Iterable[Asked], launch: Launch) -> bytes:
    """`asked.json`: the files that are expected, and how many ranks a node has."""
    from msgspec import to_builtins

    facts = {"version": 1, "ranks_per_node": launch.ranks_per_node, "files": [to_builtins(a) for a in asked]}
    return json.dumps(facts, indent=2).encode() + b"\n"


def _wanted(spec: RunSpec, launch: Launch, phase: Phase, measured: bool) -> Asked | None:
    if phase.capture is not None and phase.capture.tool == TOOL:
        return _captured(spec, launch, phase, phase.capture)
    profile = spec.profile
    if profile is None or profile.tool != TOOL or not measured:
        return None
    chosen = numbers(profile.ranks, launch.world_size)
    name = template(profile.name, spec, launch.nodes, len(chosen))
    return Asked(role=phase.role, name=f"{FOLDER}/{name}", ranks=chosen, steps=(profile.start, profile.stop))


def _captured(spec: RunSpec, launch: Launch, phase: Phase, capture: Capture) -> Asked:
    world = launch.world_size if phase.ranks == "all" else 1
    chosen = numbers(capture.ranks, world)
    name = capture.output or f"{FOLDER}/{ProfileSpec(start=0, stop=1, tool=TOOL).name}-{phase.role}"
    name = template(name, spec, launch.nodes, len(chosen))
    steps = (capture.start, capture.stop)
    return Asked(role=phase.role, name=name, ranks=chosen, steps=steps, required=capture.required)


def _wrapped(spec: RunSpec, launch: Launch, phase: Phase, asked: Asked, command: tuple[str, str]) -> Phase:
    metrics: tuple[int, ...] = ()
    if spec.profile and spec.profile.gpu_metrics and spec.gpu_type != "cpu" and phase.capture is None:
        metrics = first_of_each_node(asked.ranks, launch.ranks_per_node)
    plain = [rank for rank in asked.ranks if rank not in metrics]
    # A profile holds the environment of every process on its machine, so no rank may have a secret in its own.
    keep = spec.profile is not None and spec.profile.keep_secrets
    prefixes = [] if keep else [Prefix(argv=("/bin/sh", SHIELD))]
    if metrics:
        prefixes.append(Prefix(argv=_argv(spec, asked, command, ("--gpu-metrics-device=all",)), ranks=spell(metrics)))
    if plain:
        everyone = len(plain) == launch.world_size and phase.ranks == "all"
        prefixes.append(Prefix(argv=_argv(spec, asked, command), ranks="all" if everyone else spell(plain)))
    makes = (*phase.makes, wildcard(asked.name)) if asked.required else phase.makes
    return phase.replace(prefixes=(*phase.prefixes, *prefixes), makes=makes)


def first_of_each_node(chosen: Iterable[int], ranks_per_node: int) -> tuple[int, ...]:
    """The first chosen rank of every node that has one: a GPU's counters can be read by one process a node."""
    nodes: dict[int, int] = {}
    for rank in sorted(chosen):
        nodes.setdefault(rank // ranks_per_node, rank)
    return tuple(nodes.values())


def _argv(spec: RunSpec, asked: Asked, command: tuple[str, str], extra: tuple[str, ...] = ()) -> tuple[str, ...]:
    # Everything else than a scheduler's job has a folder of its own, and needs no id in the name to be told apart.
    job = "%q{SLURM_JOB_ID}" if spec.launcher == "slurm" else spec.launcher
    limits = _ON_CPU if spec.gpu_type == "cpu" else _ON_GPU
    return (
        *("/bin/sh", START, *command, "profile", *limits),
        *("--capture-range-end=stop", *extra, "--force-overwrite=true", "--output", for_nsys(asked.name, job)),
        *("/bin/sh", START),
    )


def _script(name: str) -> bytes:
    return resources.files(__package__).joinpath(name).read_bytes()
