"""Wrap the profiled ranks and phases of a launch with nsys. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import resources

from llmbx.api import Capture, Launch, Mount, Phase, Prefix, ProfileSpec, RunSpec, Value, rank_numbers, spell_ranks
from llmbx.entry.secrets import HARMLESS, SECRET

from .host_nsys import LIBRARIES, HostNsys
from .names import DOMAIN, FOLDER, fill_template, glob_pattern, nsys_output
from .settings import samples_gpus

TOOL = "nsys"
MANIFEST = f"{FOLDER}/expected.json"
"""The expected files with their ranks and steps, read by `collect` and `llmbx nsys`."""
NO_SECRETS = f"{FOLDER}/no-secrets.sh"
"""Script that runs a rank without secrets in its environment."""
START_SCRIPT = f"{FOLDER}/start.sh"
"""Script that runs around nsys and inside it, to detect whether nsys started the program."""

_QUIET = ("--sample=none", "--cpuctxsw=none")
# CPU sampling requires privileges that few machines grant, and its results are not used.
_ON_CPU = ("--trace=nvtx", *_QUIET, "--capture-range=nvtx", f"--nvtx-capture=profile@{DOMAIN}")
_ON_GPU = ("--trace=cuda,nvtx", *_QUIET, "--capture-range=cudaProfilerApi", "--cuda-graph-trace=node")


class ExpectedFiles(Value, frozen=True):
    """The profiles that a phase is expected to write, one per rank.

    `steps` is [start, stop), counted from zero. `name` is a path in the run folder without suffix that still contains
    the rank fields. A phase that is skipped on a condition (`Phase.skip_if`) may write none. `by_range`: an NVTX range
    starts the capture, because there is no CUDA whose profiler functions could.
    """

    role: str
    name: str
    ranks: tuple[int, ...]
    steps: tuple[int, int]
    required: bool = True
    may_be_skipped: bool = False
    by_range: bool = False


def wrap(
    spec: RunSpec, launch: Launch, command: str = "nsys", host_nsys: HostNsys | None = None
) -> tuple[Launch, tuple[ExpectedFiles, ...]]:
    """Wrap every profiled phase of `launch` with nsys; also return the files that the run is expected to write.

    `command` is the nsys command in the environment of the ranks; if it does not exist there, `host_nsys` is used.

    The measured phase gets the profile of `spec.profile`. A phase with its own `capture` by nsys gets that one instead,
    so nsys is never nested.
    """
    measured = measured_phase(launch)
    expected: list[ExpectedFiles] = []
    phases: list[Phase] = []
    for phase in launch.phases:
        phase_files = _expected_files(spec, launch, phase, phase is measured)
        if phase_files:
            expected.append(phase_files)
            phase = _wrap_phase(spec, launch, phase, phase_files, (host_nsys.program if host_nsys else "", command))
        phases.append(phase)
    if not expected:
        return launch, ()
    scripts = {NO_SECRETS: no_secrets_script(), START_SCRIPT: _script("start.sh")}
    files = {**launch.files, **scripts, MANIFEST: manifest(expected, launch)}
    mounts = (*launch.mounts, *_mounts(host_nsys)) if host_nsys else launch.mounts
    return launch.replace(phases=tuple(phases), files=files, mounts=mounts), tuple(expected)


def no_secrets_script() -> bytes:
    """Return the script that removes secrets from the environment, with llmbx's patterns for secrets in sed syntax."""
    text = _script("no_secrets.sh").decode()
    return text.replace("s/HARMLESS/", f"s/{HARMLESS}/").replace("/SECRET/", f"/{SECRET}/").encode()


def _mounts(host_nsys: HostNsys) -> list[Mount]:
    targets = {
        host_nsys.folder: host_nsys.folder,
        **{path: f"{LIBRARIES}/{name}" for name, path in host_nsys.libraries.items()},
    }
    return [
        Mount(source=source, target=None if target == source else target, read_only=True, optional=True)
        for source, target in targets.items()
    ]


def measured_phase(launch: Launch) -> Phase | None:
    """Return the measured phase: the last phase that runs on all ranks and has no capture of its own."""
    candidates = [phase for phase in launch.phases if phase.ranks == "all" and phase.capture is None]
    return candidates[-1] if candidates else None


def manifest(expected: Iterable[ExpectedFiles], launch: Launch) -> bytes:
    """Return the content of `expected.json`: the expected files and the ranks per node."""
    from msgspec import to_builtins

    facts = {"version": 1, "ranks_per_node": launch.ranks_per_node, "files": [to_builtins(e) for e in expected]}
    return json.dumps(facts, indent=2).encode() + b"\n"


def _expected_files(spec: RunSpec, launch: Launch, phase: Phase, measured: bool) -> ExpectedFiles | None:
    if phase.capture is not None and phase.capture.tool == TOOL:
        return _capture_files(spec, launch, phase, phase.capture)
    profile = spec.profile
    if profile is None or profile.tool != TOOL or not measured:
        return None
    chosen = rank_numbers(profile.ranks, launch.world_size)
    name = fill_template(profile.name, spec, launch.nodes, len(chosen))
    return ExpectedFiles(
        role=phase.role,
        name=f"{FOLDER}/{name}",
        ranks=chosen,
        steps=(profile.start, profile.stop),
        by_range=spec.gpu_type == "cpu",
    )


def _capture_files(spec: RunSpec, launch: Launch, phase: Phase, capture: Capture) -> ExpectedFiles:
    world = launch.world_size if phase.ranks == "all" else 1
    chosen = rank_numbers(capture.ranks, world)
    name = capture.output or f"{FOLDER}/{ProfileSpec(start=0, stop=1, tool=TOOL).name}-{phase.role}"
    name = fill_template(name, spec, launch.nodes, len(chosen))
    steps = (capture.start, capture.stop)
    return ExpectedFiles(
        role=phase.role,
        name=name,
        ranks=chosen,
        steps=steps,
        required=capture.required,
        may_be_skipped=phase.skip_if is not None,
        by_range=spec.gpu_type == "cpu",
    )


def _wrap_phase(
    spec: RunSpec, launch: Launch, phase: Phase, expected: ExpectedFiles, command: tuple[str, str]
) -> Phase:
    metrics: tuple[int, ...] = ()
    if samples_gpus(spec) and phase.capture is None:
        metrics = first_of_each_node(expected.ranks, launch.ranks_per_node)
    plain = [rank for rank in expected.ranks if rank not in metrics]
    # A profile contains the environment of every process on the machine, so secrets are removed from all ranks.
    keep = spec.profile is not None and spec.profile.keep_secrets
    prefixes = [] if keep else [Prefix(argv=("/bin/sh", NO_SECRETS))]
    if metrics:
        prefixes.append(
            Prefix(argv=_argv(spec, expected, command, ("--gpu-metrics-device=all",)), ranks=spell_ranks(metrics))
        )
    if plain:
        everyone = len(plain) == launch.world_size and phase.ranks == "all"
        prefixes.append(Prefix(argv=_argv(spec, expected, command), ranks="all" if everyone else spell_ranks(plain)))
    makes = (*phase.makes, glob_pattern(expected.name)) if expected.required else phase.makes
    return phase.replace(prefixes=(*phase.prefixes, *prefixes), makes=makes)


def first_of_each_node(chosen: Iterable[int], ranks_per_node: int) -> tuple[int, ...]:
    """Return the first chosen rank of each node: GPU counters can be read by only one process per node."""
    nodes: dict[int, int] = {}
    for rank in sorted(chosen):
        nodes.setdefault(rank // ranks_per_node, rank)
    return tuple(nodes.values())


def _argv(
    spec: RunSpec, expected: ExpectedFiles, command: tuple[str, str], extra: tuple[str, ...] = ()
) -> tuple[str, ...]:
    # Runs outside a scheduler have their own folder, so the name needs no job id.
    job = "%q{SLURM_JOB_ID}" if spec.launcher == "slurm" else spec.launcher
    limits = _ON_CPU if spec.gpu_type == "cpu" else _ON_GPU
    return (
        *("/bin/sh", START_SCRIPT, *command, "profile", *limits),
        *("--capture-range-end=stop", *extra, "--force-overwrite=true", "--output", nsys_output(expected.name, job)),
        *("/bin/sh", START_SCRIPT),
    )


def _script(name: str) -> bytes:
    return resources.files(__package__).joinpath(name).read_bytes()
