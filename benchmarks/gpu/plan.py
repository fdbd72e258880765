"""Which programs each stage starts, in order: pure, so that it can be printed and tested without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import place
from cases import ATTEMPTS, CASES, PAIRED, Attempt, Case, case

PAIRS = 5

CACHED = {"nemo": (), "maxtext": ("--env", f"JAX_COMPILATION_CACHE_DIR={place.BUILD / 'gpu' / 'jax'}")}
"""Options with which a run that is repeated compiles its program only once."""

STAGES = (
    "matmul", "nemo", "maxtext", "pairs-nemo", "pairs-maxtext", "profile", "pgle", "nccl", "attempts-nemo",
    "attempts-maxtext",
)  # fmt: skip


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
    """How much is run: on a GPU, or as a rehearsal with the minis on a machine without one."""

    rehearse: bool = False

    @property
    def steps(self) -> int:
        """Steps of a case."""
        return 8 if self.rehearse else 50

    @property
    def few(self) -> int:
        """Steps of what is repeated."""
        return 6 if self.rehearse else 12

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
    size, gpu_type, dtype = found.size, "h200", found.dtype
    sets: tuple[str, ...] = found.sets
    if scale.rehearse:
        size, gpu_type, dtype, sets = "mini", "cpu", "bf16", ()
    argv = [verb, found.workload, "--plugin", found.plugin, "--size", size, "--dtype", dtype]
    argv += ["--gpu-type", gpu_type, "--gpus", "1", "--runtime", "host", "--launcher", "local", "--walltime", "7"]
    argv += ["--format", "json"]
    argv += [part for pair in sets for part in ("--set", pair)]
    count = steps or scale.steps
    return Job(found.name, "llmbx", (*argv, "--max-steps", str(count), *extra), found.plugin, count)


def _matmul(scale: Scale) -> list[Job]:
    return [Job("matmul", "program", ("matmul.py", *(("--size", "256") if scale.rehearse else ())))]


def _cases(framework: str) -> Callable[[Scale], list[Job]]:
    def found(scale: Scale) -> list[Job]:
        chosen = [c for c in CASES if c.plugin == framework and not (scale.rehearse and c.dtype == "fp8")]
        return [*_matmul(scale), *(training(c, scale) for c in chosen)]

    return found


def _pairs(framework: str) -> Callable[[Scale], list[Job]]:
    """Alternating, so that a change of the machine's pace falls on both. The first run with llmbx is not counted."""

    def found(scale: Scale) -> list[Job]:
        run = training(_small(framework), scale, *CACHED[framework], steps=scale.few)
        planned = [replace(run, name=f"{framework}-llmbx-0")]
        for number in range(1, scale.pairs + 1):
            bare = Job(f"{framework}-bare-{number}", "bare", (), framework, scale.few, f"{framework}-llmbx-0")
            planned += [bare, replace(run, name=f"{framework}-llmbx-{number}")]
        return planned

    return found


def _small(framework: str) -> Case:
    """The case that is repeated and profiled, with one micro-batch a step."""
    found = case(PAIRED[framework])
    return replace(found, sets=("gbs=1",)) if framework == "nemo" else found


def _profile(scale: Scale) -> list[Job]:
    found = []
    for framework, own in (("nemo", "torch"), ("maxtext", "xplane")):
        for tool in (own, "nsys"):
            extra = ("--steps", scale.profiled, "--tool", tool)
            job = training(_small(framework), scale, *extra, verb="profile")
            found.append(replace(job, name=f"{framework}-{tool}"))
    return found


def _pgle(scale: Scale) -> list[Job]:
    found, mode = case(PAIRED["maxtext"]), "cpu-standin" if scale.rehearse else "jax"
    without = replace(training(found, scale), name="pgle-off")
    return [without, replace(training(found, scale, "--set", f"pgle={mode}"), name=f"pgle-{mode}")]


def _nccl(scale: Scale) -> list[Job]:
    return [Job("nccl", "program", ("one_rank.py",))]


def _attempts(framework: str) -> Callable[[Scale], list[Job]]:
    """Each case as it is, then with one thing changed at a time."""

    def found(scale: Scale) -> list[Job]:
        planned = []
        for name in dict.fromkeys(a.case for a in ATTEMPTS if case(a.case).plugin == framework):
            planned.append(replace(training(case(name), scale, steps=scale.few), name=f"{name}-as-it-is"))
            planned += [_attempt(attempt, scale) for attempt in ATTEMPTS if attempt.case == name]
        return planned[:2] if scale.rehearse else planned

    return found


def _attempt(attempt: Attempt, scale: Scale) -> Job:
    pairs = [("--set", pair) for pair in attempt.sets] + [("--env", pair) for pair in attempt.env]
    extra = () if scale.rehearse else tuple(part for pair in pairs for part in pair)
    job = training(case(attempt.case), scale, *extra, steps=scale.few)
    return replace(job, name=f"{attempt.case}-{attempt.name}")


_STAGES: dict[str, Callable[[Scale], list[Job]]] = {
    "matmul": _matmul,
    "nemo": _cases("nemo"),
    "maxtext": _cases("maxtext"),
    "pairs-nemo": _pairs("nemo"),
    "pairs-maxtext": _pairs("maxtext"),
    "profile": _profile,
    "pgle": _pgle,
    "nccl": _nccl,
    "attempts-nemo": _attempts("nemo"),
    "attempts-maxtext": _attempts("maxtext"),
}
