"""The sbatch script of a run: a pure function of the run and its launch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from llmbx.launchers import script
from llmbx.launchers.shim import phase_ranks
from llmbx.model import Launch, Phase, RunSpec, Wrapping
from llmbx.secrets import is_secret

from . import preflight
from .allocation import STEP_OPTIONS, Allocation
from .params import check_params, check_srun
from .settings import sbatch_options, srun_options

PORTS = (10000, 20000)
"""First rendezvous port, and how many there are: below the ports that Linux hands out by itself (32768 and up)."""

LITERAL = "\\"
"""In front of a file name it keeps Slurm from reading `%` there, or in the folder's name, as a pattern (sbatch(1))."""


def render(
    spec: RunSpec, launch: Launch, wrappings: tuple[Wrapping, ...], run_dir: Path, allocation: Allocation | None = None
) -> str:
    """The script: for sbatch, or to run inside `allocation`, where only its steps' options count.

    Raises `UsageError` for options or values that no script can carry.
    """
    script.check_launch(launch, wrappings)
    pairs = list(zip(launch.phases, wrappings, strict=True))
    title = f"{spec.experiment}: {launch.world_size} rank(s) on {launch.nodes} node(s)"
    job_id = allocation.job_id if allocation else "${SLURM_JOB_ID-}"
    options = [] if allocation else header(spec, launch)

    def start(of: RunSpec, what: Launch, phase: Phase, how: Wrapping) -> list[str]:
        return srun(of, what, phase, how, allocation)

    functions, look = preflight.blocks(spec, launch, wrappings[0], start)
    blocks = [
        "\n".join(["#!/bin/bash", *options, script.head(title, run_dir, spec, job_id), *_inside(allocation)]),
        script.shell("common.sh"),
        script.shell("slurm.sh", __package__),
        *(
            script.rank_function(spec, phase, wrapping, start(spec, launch, phase, wrapping))
            for phase, wrapping in pairs
        ),
        *functions,
        "set_aside\nbegin",
        script.files(launch),
        *script.setup(spec),
        rendezvous("SLURM_JOB_ID" if allocation is None else "$$"),
        *look,
        script.phases(launch),
    ]
    return "\n".join(block.rstrip("\n") + "\n" for block in blocks)


def _inside(allocation: Allocation | None) -> list[str]:
    """What a step needs to know of the allocation; nothing else of the job around it reaches the ranks."""
    if allocation is None:
        return []
    known = {"SLURM_JOB_ID": allocation.job_id, "SLURM_JOB_NODELIST": ",".join(allocation.hosts)}
    return [*script.exports(known)]


def header(spec: RunSpec, launch: Launch) -> list[str]:
    """The `#SBATCH` lines: what follows from the launch, then the user's options in alphabetical order."""
    given = sbatch_options(spec)
    check_params(given, spec.origins)
    options = {
        "job-name": spec.experiment,
        "nodes": str(launch.nodes),
        "ntasks-per-node": str(launch.ranks_per_node),
        "output": LITERAL + script.batch_name(spec),
        "open-mode": "append",
        **dict(sorted(_options(spec, launch, given).items())),
    }
    return [f"#SBATCH {_directive(name, value)}" for name, value in options.items()]


def _options(spec: RunSpec, launch: Launch, given: Mapping[str, str]) -> dict[str, str]:
    options = {**_defaults(spec, given), **given}
    if "requeue" not in options:
        options["no-requeue"] = ""
    if "export" in options:
        options["export"] = _export(options["export"], forwarded(spec, launch))
    return {name: value for name, value in options.items() if (name, value) not in _OFF}


_OFF = (("exclusive", "none"), ("mem", "none"))
"""What a user writes to have llmbx's own default left out."""


def _defaults(spec: RunSpec, given: Mapping[str, str]) -> dict[str, str]:
    """Whole nodes with all their memory for a benchmark on GPUs; a time limit where the workload has one."""
    options = {}
    if not spec.mini and spec.gpu_type != "cpu":
        if "oversubscribe" not in given:
            options["exclusive"] = ""
        if not {"mem-per-cpu", "mem-per-gpu"} & given.keys():
            options["mem"] = "0"
    if spec.walltime_minutes is not None:
        options["time"] = f"{spec.walltime_minutes // 60:02}:{spec.walltime_minutes % 60:02}:00"
    return options


def forwarded(spec: RunSpec, launch: Launch) -> tuple[str, ...]:
    """Names whose values come from the submitting shell: what phases forward, and every secret."""
    names = [*spec.secrets, *(name for phase in launch.phases for name in (*phase.forward, *phase.env))]
    asked = {*spec.secrets, *(name for phase in launch.phases for name in phase.forward)}
    return tuple(dict.fromkeys(name for name in (*names, *spec.env) if name in asked or is_secret(name)))


def _export(asked: str, names: tuple[str, ...]) -> str:
    """What `--export` must say so that secrets pass although not everything does."""
    if not names or asked.split(",")[0].upper() == "ALL":
        return asked
    kept = [] if asked.upper() in ("NONE", "NIL") else [asked]
    return ",".join([*kept, *(name for name in names if name not in asked.split(","))])


def _directive(name: str, value: str) -> str:
    return f"--{name}={_quoted(value)}" if value else f"--{name}"


def _quoted(value: str) -> str:
    """A value as sbatch reads it back from a `#SBATCH` line: in double quotes where it is not plain."""
    if not any(char in value for char in " \t\"'\\#"):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def srun(
    spec: RunSpec, launch: Launch, phase: Phase, wrapping: Wrapping, allocation: Allocation | None = None
) -> list[str]:
    """The srun that starts the ranks of one phase, up to the runtime's own command."""
    first = phase.ranks == "first"
    options = {
        "export": "ALL",
        "nodes": "1" if first else str(launch.nodes),
        "ntasks": str(phase_ranks(phase, launch)),
        "ntasks-per-node": "1" if first else str(launch.ranks_per_node),
        **({"relative": "0"} if first and allocation is None else {}),
        "kill-on-bad-exit": "1",
        "output": LITERAL + script.log_name(spec),
        "open-mode": "append",
        **_cpus(sbatch_options(spec)),
        **_step(spec, launch, allocation, first),
    }
    own = srun_options(spec)
    check_srun(own, f"cluster '{spec.cluster}'")
    label = ["--label"] if phase_ranks(phase, launch) > 1 else []
    set_before = {flag.partition("=")[0].removeprefix("--") for flag in wrapping.launcher_flags}
    after = {name: value for name, value in own.items() if name in set_before}
    options |= {name: value for name, value in own.items() if name not in set_before}
    return ["srun", *_flags(options), *label, *wrapping.launcher_flags, *_flags(after)]  # srun takes the last of equals


def _flags(options: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" if value else f"--{name}" for name, value in options.items()]


def _step(spec: RunSpec, launch: Launch, allocation: Allocation | None, first: bool) -> dict[str, str]:
    """What places a step inside an allocation: its nodes, and what it takes of them."""
    if allocation is None:
        return {}
    hosts = allocation.hosts[: 1 if first else launch.nodes]
    given = sbatch_options(spec)
    taken = {name: given[name] for name in STEP_OPTIONS if given.get(name)}
    return {"nodelist": ",".join(hosts), **({"overlap": ""} if allocation.overlap else {}), **taken}


def _cpus(options: Mapping[str, str]) -> dict[str, str]:
    """Since Slurm 22.05, srun does not take `--cpus-per-task` from its job any more (release notes)."""
    return {"cpus-per-task": options["cpus-per-task"]} if options.get("cpus-per-task") else {}


def rendezvous(seed: str = "SLURM_JOB_ID") -> str:
    """Address and ports at which the ranks find each other: every phase of every job has a port of its own.

    `seed` is a number to the shell that tells jobs apart, or runs inside one allocation.
    """
    first, count = PORTS
    lines = [
        '[ -n "${SLURM_JOB_ID-}" ] || fail 2 "this script is started with sbatch"',
        script.forget_ranks(),
        "LLMBX_MASTER_ADDR=$(first_address)",
        f"LLMBX_MASTER_PORT=$(({first} + {seed} * 8 % {count}))",
        "export LLMBX_MASTER_ADDR LLMBX_MASTER_PORT",
    ]
    return "\n".join(lines)
