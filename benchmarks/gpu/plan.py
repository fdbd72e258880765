"""Which programs each stage starts, in order: pure, so that it can be printed and tested without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import place
from cases import CASES, LATER, PROFILED, SHORT, Case

PAIRS = 5
PAIRED_STEPS = 40

CACHED = {"nemo": (), "maxtext": ("--env", f"JAX_COMPILATION_CACHE_DIR={place.BUILD / 'gpu' / 'jax'}")}
"""Options with which a run that is repeated compiles its program only once."""

STAGES = (
    "machine",
    "nemo",
    "nccl",
    "profile-nemo",
    "pairs-nemo",
    "maxtext",
    "profile-maxtext",
    "pairs-maxtext",
    "pgle",
    "nemo-more",
)
"""In order of their worth, as the machine may be gone before the last."""


@dataclass(frozen=True)
class Job:
    """One program: `kind` "llmbx" (its verb and options), "program" (a file beside this one) or "bare".

    A bare job starts what the llmbx job named `of` started, without llmbx. `steps` are those of the training.
    """

    name: str
    kind: str
    argv: tuple[str, ...]
    framework: str | None = None
    steps: int = 0
    of: str = ""


@dataclass(frozen=True)
class Scale:
    """How much is run: on a GPU of a type, or as a rehearsal with the minis on a machine without one."""

    rehearse: bool = False
    gpu_type: str = "h200"

    @property
    def steps(self) -> int:
        """Steps of a case."""
        return 8 if self.rehearse else 50

    @property
    def paired_steps(self) -> int:
        """Steps of what is run with and without llmbx."""
        return 6 if self.rehearse else PAIRED_STEPS

    @property
    def pairs(self) -> int:
        """How many pairs of runs, with llmbx and without."""
        return 1 if self.rehearse else PAIRS

    @property
    def profiled(self) -> str:
        """The steps that are profiled, half-open."""
        return "5-8" if self.rehearse else "45-50"


def jobs(stage: str, scale: Scale, only: str | None = None) -> list[Job]:
    """What the stage starts; `only` picks the jobs with that in their name. Raises `KeyError` for an unknown stage."""
    found = _STAGES[stage](scale)
    return [job for job in found if only is None or only in job.name]


def training(found: Case, scale: Scale, *extra: str, steps: int | None = None, verb: str = "run") -> Job:
    """A case through llmbx."""
    size, gpu_type, dtype = found.size, scale.gpu_type, found.dtype
    sets: tuple[str, ...] = found.sets
    if scale.rehearse:
        size, gpu_type, dtype, sets = "mini", "cpu", "bf16", ()
    argv = [verb, found.workload, "--plugin", found.plugin, "--size", size, "--dtype", dtype]
    argv += ["--gpu-type", gpu_type, "--gpus", "1", "--runtime", "host", "--launcher", "local", "--walltime", "7"]
    argv += ["--format", "json"]
    argv += [part for pair in sets for part in ("--set", pair)]
    count = steps or scale.steps
    return Job(found.name, "llmbx", (*argv, "--max-steps", str(count), *extra), found.plugin, count)


def _machine(scale: Scale) -> list[Job]:
    small = ("--size", "256", "--copy-mib", "64") if scale.rehearse else ()
    return [Job("machine", "program", ("machine.py",)), Job("peaks", "program", ("peaks.py", *small))]


def _cases(framework: str, later: bool = False) -> Callable[[Scale], list[Job]]:
    def found(scale: Scale) -> list[Job]:
        chosen = [c for c in CASES if c.plugin == framework and (c.name in LATER) == later]
        return [training(c, scale) for c in chosen if not (scale.rehearse and c.dtype == "fp8")]

    return found


def _pairs(framework: str) -> Callable[[Scale], list[Job]]:
    """Alternating, so that a change of the machine's pace falls on both. The first run with llmbx is not counted."""

    def found(scale: Scale) -> list[Job]:
        run = training(SHORT[framework], scale, *CACHED[framework], steps=scale.paired_steps)
        planned = [replace(run, name=f"{framework}-llmbx-0")]
        for number in range(1, scale.pairs + 1):
            bare = Job(f"{framework}-bare-{number}", "bare", (), framework, run.steps, f"{framework}-llmbx-0")
            planned += [bare, replace(run, name=f"{framework}-llmbx-{number}")]
        return planned

    return found


def _profile(framework: str, own: str) -> Callable[[Scale], list[Job]]:
    def found(scale: Scale) -> list[Job]:
        options = {tool: ("--steps", scale.profiled, "--tool", tool) for tool in (own, "nsys")}
        chosen = PROFILED[framework]
        planned = {tool: training(chosen, scale, *extra, verb="profile") for tool, extra in options.items()}
        return [replace(job, name=f"{framework}-{tool}") for tool, job in planned.items()]

    return found


def _pgle(scale: Scale) -> list[Job]:
    found, mode = PROFILED["maxtext"], "cpu-standin" if scale.rehearse else "jax"
    without = replace(training(found, scale), name="pgle-off")
    return [without, replace(training(found, scale, "--set", f"pgle={mode}"), name=f"pgle-{mode}")]


def _nccl(scale: Scale) -> list[Job]:
    return [Job("nccl", "program", ("one_rank.py",))]


_STAGES: dict[str, Callable[[Scale], list[Job]]] = {
    "machine": _machine,
    "nemo": _cases("nemo"),
    "nemo-more": _cases("nemo", later=True),
    "nccl": _nccl,
    "profile-nemo": _profile("nemo", "torch"),
    "pairs-nemo": _pairs("nemo"),
    "maxtext": _cases("maxtext"),
    "profile-maxtext": _profile("maxtext", "xplane"),
    "pairs-maxtext": _pairs("maxtext"),
    "pgle": _pgle,
}
