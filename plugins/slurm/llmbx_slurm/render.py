"""Render the sbatch script of a run. Pure functions of the specification and the launch."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping
from pathlib import Path

from llmbx.api import (
    Launch,
    Launcher,
    Phase,
    RunSpec,
    Wrapping,
)
from llmbx.entry.secrets import is_secret

from . import preflight, steps
from .allocation import STEP_OPTIONS, Allocation
from .params import check_params, check_srun
from .settings import sbatch_options, srun_options
from .unanswered import UNANSWERED

PORTS = (10000, 20000)
"""First rendezvous port, and number of ports: below the ephemeral ports of Linux (32768 and up)."""

AUXILIARY = {"kill-on-bad-exit": "0", "wait": "0"}
"""Options of the steps besides the phases: a slow or failed node does not end the tasks of the others."""

LITERAL = "\\"
"""Prefix of a file name that disables Slurm's `%` patterns in the name and its folder (sbatch(1))."""


def render(
    spec: RunSpec, launch: Launch, wrappings: tuple[Wrapping, ...], run_dir: Path, allocation: Allocation | None = None
) -> str:
    """Render the script for sbatch, or for a run inside `allocation`, where only the options of steps apply.

    Raises `UsageError` for invalid options or values.
    """
    Launcher.check_launch(launch, wrappings)
    pairs = list(zip(launch.phases, wrappings, strict=True))
    title = f"{spec.experiment}: {launch.world_size} rank(s) on {launch.nodes} node(s)"
    job_id = allocation.job_id if allocation else "${SLURM_JOB_ID-}"
    options = [] if allocation else header(spec, launch, Launcher.is_written_in_advance(run_dir))
    head = Launcher.script_head(title, run_dir, spec, job_id, Launcher.batch_name(spec))

    start = functools.partial(_auxiliary, allocation)
    functions, check = preflight.script_blocks(spec, launch, wrappings[0], start)
    boost, set_boost = steps.vboost(spec, launch, start)
    name = steps.job_name(wrappings, in_allocation=allocation is not None)
    blocks = [
        "\n".join(["#!/bin/bash", *options, head, *_allocation_variables(allocation), *name]),
        Launcher.shell_source("common.sh"),
        "# Messages of srun if the controller did not answer\n" + "unanswered=" + shlex.quote("\n".join(UNANSWERED)),
        Launcher.shell_source("slurm.sh", __package__),
        *(
            Launcher.rank_function(spec, phase, wrapping, srun(spec, launch, phase, wrapping, allocation))
            for phase, wrapping in pairs
        ),
        *functions,
        *boost,
        *steps.cleanup(spec, launch, wrappings, start),
        "archive_previous_start\nbegin",
        Launcher.launch_files(launch),
        *Launcher.setup_lines(spec),
        rendezvous("SLURM_JOB_ID" if allocation is None else "$$"),
        *check,
        *set_boost,
        Launcher.script_phases(launch),
    ]
    return "\n".join(block.rstrip("\n") + "\n" for block in blocks)


def _allocation_variables(allocation: Allocation | None) -> list[str]:
    """Exports of the variables that srun needs inside an allocation; no other variables of the job reach the ranks."""
    if allocation is None:
        return []
    variables = {"SLURM_JOB_ID": allocation.job_id, "SLURM_JOB_NODELIST": ",".join(allocation.hosts)}
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]


def header(spec: RunSpec, launch: Launch, in_advance: bool = False) -> list[str]:
    """The `#SBATCH` lines: options derived from the launch, then the user's options in alphabetical order.

    A script that is written `in_advance` can be submitted several times; until it has made its folder, its output goes
    to a file with the job's id in the folder of the submission.
    """
    user_options = sbatch_options(spec)
    check_params(user_options, spec.origins)
    options = {
        "job-name": spec.experiment,
        "nodes": str(launch.nodes),
        "ntasks-per-node": str(launch.ranks_per_node),
        "output": _numbered(Launcher.batch_name(spec)) if in_advance else LITERAL + Launcher.batch_name(spec),
        "open-mode": "append",
        **dict(sorted(_options(spec, launch, user_options).items())),
    }
    return [f"#SBATCH {_directive(name, value)}" for name, value in options.items()]


def _numbered(name: str) -> str:
    """The name of a job's output file with the job's id, as a pattern of sbatch."""
    return f"{name.replace('%', '%%').removesuffix('.out')}_%j.out"


def _options(spec: RunSpec, launch: Launch, user_options: Mapping[str, str]) -> dict[str, str]:
    options = {**_defaults(spec, user_options), **user_options}
    if "requeue" not in options:
        options["no-requeue"] = ""
    if "export" in options:
        options["export"] = _export(options["export"], forwarded(spec, launch))
    return {name: value for name, value in options.items() if (name, value) not in _DISABLED}


_DISABLED = (("exclusive", "none"), ("mem", "none"), ("dependency", "none"))
"""Values with which a user disables a default of llmbx."""


def _defaults(spec: RunSpec, user_options: Mapping[str, str]) -> dict[str, str]:
    """Defaults: exclusive nodes with all memory for benchmarks on GPUs, and the workload's time limit if it has one."""
    options = {}
    if not spec.mini and spec.gpu_type != "cpu":
        if "oversubscribe" not in user_options:
            options["exclusive"] = ""
        if not {"mem-per-cpu", "mem-per-gpu"} & user_options.keys():
            options["mem"] = "0"
    if spec.walltime_minutes is not None:
        options["time"] = f"{spec.walltime_minutes // 60:02}:{spec.walltime_minutes % 60:02}:00"
    return options


def forwarded(spec: RunSpec, launch: Launch) -> tuple[str, ...]:
    """Names of variables whose values come from the submitting shell: forwarded variables of phases, and secrets."""
    names = [*spec.secrets, *(name for phase in launch.phases for name in (*phase.forward, *phase.env))]
    selected = {*spec.secrets, *(name for phase in launch.phases for name in phase.forward)}
    return tuple(dict.fromkeys(name for name in (*names, *spec.env) if name in selected or is_secret(name)))


def _export(value: str, names: tuple[str, ...]) -> str:
    """The value of `--export` with `names` (secrets and forwarded variables) added if it does not export everything."""
    if not names or value.split(",")[0].upper() == "ALL":
        return value
    kept = [] if value.upper() in ("NONE", "NIL") else [value]
    return ",".join([*kept, *(name for name in names if name not in value.split(","))])


def _directive(name: str, value: str) -> str:
    return f"--{name}={_quoted(value)}" if value else f"--{name}"


def _quoted(value: str) -> str:
    """A value quoted for a `#SBATCH` line: in double quotes if it has special characters."""
    if not any(char in value for char in " \t\"'\\#"):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def srun(
    spec: RunSpec, launch: Launch, phase: Phase, wrapping: Wrapping, allocation: Allocation | None = None,
    changes: Mapping[str, str] | None = None,
) -> list[str]:  # fmt: skip
    """The srun argv that starts the ranks of one phase, without the runtime's command.

    `changes` are options that replace those of a phase and those of the user.
    """
    first = phase.ranks == "first"
    options = {
        "export": "ALL",
        "nodes": "1" if first else str(launch.nodes),
        "ntasks": str(launch.ranks_of(phase)),
        "ntasks-per-node": "1" if first else str(launch.ranks_per_node),
        **({"relative": "0"} if first and allocation is None else {}),
        "kill-on-bad-exit": "1",
        "output": LITERAL + Launcher.log_name(spec),
        "open-mode": "append",
        **_cpu_options(sbatch_options(spec)),
        **_step_options(spec, launch, allocation, first),
    }
    profile_options = srun_options(spec)
    check_srun(profile_options, f"cluster '{spec.cluster}'")
    label = ["--label"] if launch.ranks_of(phase) > 1 else []
    set_by_wrapping = {flag.partition("=")[0].removeprefix("--") for flag in wrapping.launcher_flags}
    after = {name: value for name, value in profile_options.items() if name in set_by_wrapping}
    options |= {name: value for name, value in profile_options.items() if name not in set_by_wrapping}
    options |= changes or {}
    # If an option occurs twice, srun uses the last value.
    return ["srun", *_flags(options), *label, *wrapping.launcher_flags, *_flags(after)]


def _auxiliary(
    allocation: Allocation | None, spec: RunSpec, launch: Launch, phase: Phase, wrapping: Wrapping,
    changes: Mapping[str, str],
) -> list[str]:  # fmt: skip
    """The srun argv of a step besides the phases."""
    return srun(spec, launch, phase, wrapping, allocation, {**AUXILIARY, **changes})


def _flags(options: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" if value else f"--{name}" for name, value in options.items()]


def _step_options(spec: RunSpec, launch: Launch, allocation: Allocation | None, first: bool) -> dict[str, str]:
    """The options that place a step inside an allocation: its nodes and their resources."""
    if allocation is None:
        return {}
    hosts = allocation.hosts[: 1 if first else launch.nodes]
    user_options = sbatch_options(spec)
    taken = {name: user_options[name] for name in STEP_OPTIONS if user_options.get(name)}
    return {"nodelist": ",".join(hosts), **({"overlap": ""} if allocation.overlap else {}), **taken}


def _cpu_options(options: Mapping[str, str]) -> dict[str, str]:
    """`--cpus-per-task` for srun, which does not inherit it from the job since Slurm 22.05 (release notes)."""
    return {"cpus-per-task": options["cpus-per-task"]} if options.get("cpus-per-task") else {}


def rendezvous(seed: str = "SLURM_JOB_ID") -> str:
    """Shell lines that set the rendezvous address and port; every phase of every job has its own port.

    `seed` is a shell expression for a number that differs between jobs, or between runs inside one allocation.
    """
    first, count = PORTS
    lines = [
        '[ -n "${SLURM_JOB_ID-}" ] || fail 2 "submit this script with sbatch"',
        Launcher.forget_ranks(),
        "LLMBX_MASTER_ADDR=$(first_address)",
        f"LLMBX_MASTER_PORT=$(({first} + {seed} * 8 % {count}))",
        "export LLMBX_MASTER_ADDR LLMBX_MASTER_PORT",
    ]
    return "\n".join(lines)
