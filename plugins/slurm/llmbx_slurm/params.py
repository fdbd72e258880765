"""Parse and check options of sbatch: the recipes' one-line syntax, sbatch's environment variables, and conflicts.

Options are stored by long name without dashes; an empty value means a flag without a value. Names and variables are
those of sbatch(1), Slurm 22.05 to 25.05.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

from llmbx.api import Launcher, UsageError

OPTIONS = frozenset({
    "account", "acctg-freq", "batch", "bb", "bbf", "begin", "cluster-constraint", "clusters", "comment",
    "constraint", "consolidate-segments", "container", "container-id", "contiguous", "core-spec",
    "cores-per-socket", "cpu-freq", "cpus-per-gpu", "cpus-per-task", "deadline", "delay-boot", "dependency",
    "distribution",
    "exclude", "exclusive", "export", "export-file", "extra", "extra-node-info", "get-user-env", "gid", "gpu-bind",
    "gpu-freq", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "hint", "hold",
    "job-name", "kill-on-invalid-dep", "licenses", "mail-type", "mail-user", "mcs-label", "mem", "mem-bind",
    "mem-per-cpu", "mem-per-gpu", "mincpus", "network", "nice", "no-kill", "no-requeue", "nodefile", "nodelist",
    "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-socket", "oom-kill-step", "open-mode", "overcommit",
    "oversubscribe", "partition", "power", "prefer", "priority", "profile", "propagate", "qos", "reboot",
    "requeue", "reservation", "resv-ports", "segment", "signal", "sockets-per-node", "spread-job", "stepmgr",
    "switches", "thread-spec", "threads-per-core", "time", "time-min", "tmp", "tres-bind", "tres-per-task", "uid",
    "use-min-nodes", "wait-all-nodes", "wckey",
})  # fmt: skip
"""sbatch options that a user may set."""

RESERVED = {
    "nodes": "the number of nodes is derived from --gpus and --gpus-per-node",
    "ntasks": "the number of ranks is derived from the workload's topology",
    "ntasks-per-node": "the number of ranks is derived from the workload's topology",
    "array": "use llmbx sweep for many runs",
    "output": "output is written to the run folder",
    "error": "output is written to the run folder",
    "input": "ranks have no standard input",
    "chdir": "the job runs in the run folder",
    "parsable": "llmbx parses the job id",
    "wait": "llmbx waits for the job",
    "wrap": "the job runs llmbx's script",
    "test-only": "use --dry-run",
}
"""Options that are reserved for llmbx, and why or what to use instead."""

VARIABLES = {
    "SBATCH_ACCOUNT": "account", "SBATCH_ACCTG_FREQ": "acctg-freq", "SBATCH_BATCH": "batch",
    "SBATCH_CLUSTERS": "clusters", "SBATCH_CONSTRAINT": "constraint", "SBATCH_CONTAINER": "container",
    "SBATCH_ARRAY_INX": "array", "SBATCH_DISTRIBUTION": "distribution", "SBATCH_GET_USER_ENV": "get-user-env",

    "SBATCH_CORE_SPEC": "core-spec", "SBATCH_CPUS_PER_GPU": "cpus-per-gpu", "SBATCH_DELAY_BOOT": "delay-boot",
    "SBATCH_EXCLUSIVE": "exclusive", "SBATCH_EXPORT": "export", "SBATCH_GPU_BIND": "gpu-bind",
    "SBATCH_GPU_FREQ": "gpu-freq", "SBATCH_GPUS": "gpus", "SBATCH_GPUS_PER_NODE": "gpus-per-node",
    "SBATCH_GPUS_PER_TASK": "gpus-per-task", "SBATCH_GRES": "gres", "SBATCH_GRES_FLAGS": "gres-flags",
    "SBATCH_HINT": "hint", "SBATCH_JOB_NAME": "job-name", "SBATCH_MEM_BIND": "mem-bind",
    "SBATCH_MEM_PER_CPU": "mem-per-cpu", "SBATCH_MEM_PER_GPU": "mem-per-gpu", "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_NETWORK": "network", "SBATCH_NO_KILL": "no-kill", "SBATCH_NO_REQUEUE": "no-requeue",
    "SBATCH_OPEN_MODE": "open-mode", "SBATCH_OVERCOMMIT": "overcommit", "SBATCH_PARTITION": "partition",
    "SBATCH_POWER": "power", "SBATCH_PROFILE": "profile", "SBATCH_QOS": "qos", "SBATCH_REQ_SWITCH": "switches",
    "SBATCH_REQUEUE": "requeue", "SBATCH_RESERVATION": "reservation", "SBATCH_SEGMENT_SIZE": "segment",
    "SBATCH_SIGNAL": "signal", "SBATCH_SPREAD_JOB": "spread-job", "SBATCH_THREAD_SPEC": "thread-spec",
    "SBATCH_THREADS_PER_CORE": "threads-per-core", "SBATCH_TIMELIMIT": "time",
    "SBATCH_USE_MIN_NODES": "use-min-nodes", "SBATCH_WAIT_ALL_NODES": "wait-all-nodes", "SBATCH_WCKEY": "wckey",
}  # fmt: skip
"""sbatch's input environment variables, and the option that each sets.

Variables for output files and for waiting are ignored, because llmbx sets the output and waits for the job itself.
"""

FLAG_VARIABLES = frozenset({"no-kill", "no-requeue", "overcommit", "requeue", "spread-job", "use-min-nodes"})
"""Options that are enabled if their variable is set, whatever its value."""

OPTIONAL_VALUE = FLAG_VARIABLES | {
    "consolidate-segments", "contiguous", "exclusive", "get-user-env", "hold", "nice", "oversubscribe", "propagate",
    "reboot", "resv-ports", "stepmgr",
}  # fmt: skip
"""Options that may be used without a value."""

RESERVED_FOR_SRUN = ("nodes", "ntasks", "ntasks-per-node", "output", "error", "input", "chdir", "test-only")
"""The reserved options that srun also has."""

_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9-]*")

_CONFLICTS = (
    ("gres", "gpus-per-node"), ("gpus", "gpus-per-node"), ("mem", "mem-per-cpu"), ("mem", "mem-per-gpu"),
    ("mem-per-cpu", "mem-per-gpu"), ("exclusive", "oversubscribe"), ("requeue", "no-requeue"),
)  # fmt: skip


def parse_params(text: str, source: str = "ADDITIONAL_SLURM_PARAMS") -> dict[str, str]:
    """Parse options in the recipes' syntax: `nodelist=node001,node002;constraint=gpu&memory;exclusive`.

    Options are separated by semicolons; quoted values may contain them. Leading dashes, and underscores instead of
    dashes, are accepted. Raises `UsageError` for an option without a name or with two different values.
    """
    params: dict[str, str] = {}
    for part in _split(text, source):
        name, _, value = part.partition("=")
        key = option_name(name)
        if not key:
            raise UsageError(f"{source}: {part!r} has no option name; expected NAME=VALUE;NAME=VALUE;SWITCH")
        value = _unquoted(value.strip())
        if params.get(key, value) != value:
            raise UsageError(f"{source}: {key} has two values: {params[key]!r} and {value!r}")
        params[key] = value
    return params


def option_name(text: str) -> str:
    """The normalized long name of an option: `gpus-per-node` for `--gpus_per_node`."""
    return text.strip().lstrip("-").replace("_", "-")


def from_environ(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Option -> (value, variable) for sbatch's input variables that are set."""
    options = {}
    for variable, option in VARIABLES.items():
        if environ.get(variable) or (variable in environ and option in OPTIONAL_VALUE):
            options[option] = ("" if option in FLAG_VARIABLES else environ[variable], variable)
    return options


def check_params(options: Mapping[str, str], origins: Mapping[str, str]) -> None:
    """Raise `UsageError` for an option that is reserved, misspelled, invalid, or conflicts with another one.

    `origins` maps `slurm.sbatch.OPTION` to the source of the value, for the message. An unknown name is accepted unless
    it resembles a known one, because it may belong to a Slurm plugin of the site.
    """
    for key, value in options.items():
        if key in RESERVED:
            raise UsageError(f"sbatch option {_with_origin(key, options, origins)}: llmbx sets it; {RESERVED[key]}")
        if "\n" in value or "\0" in value:
            raise UsageError(f"sbatch option {_with_origin(key, options, origins)}: a value must be a single line")
        if not _OPTION.fullmatch(key):
            named = _with_origin(key, options, origins)
            raise UsageError(
                f"sbatch option {named}: a name has only letters, digits and dashes; separate options by ';'"
            )
        if not value and key in OPTIONS - OPTIONAL_VALUE:
            raise UsageError(f"sbatch option {_with_origin(key, options, origins)}: a value is required")
        if key not in OPTIONS:
            near = difflib.get_close_matches(key, OPTIONS, n=1, cutoff=0.85)
            if near:
                raise UsageError(f"sbatch option {_with_origin(key, options, origins)}: did you mean '{near[0]}'?")
    for first, second, why in _conflicts(options):
        both = f"{_with_origin(first, options, origins)} and {_with_origin(second, options, origins)}"
        raise UsageError(f"sbatch options {both} conflict{why}: remove one")


def check_nodelist(options: Mapping[str, str], origins: Mapping[str, str], nodes: int, gpus_per_node: int) -> None:
    """Raise `UsageError` if nodelist names more nodes than the run has, which sbatch would refuse.

    With fewer names Slurm adds nodes of its own choice. The path of a file is left to Slurm, and so is a list that it
    reads in another way.
    """
    try:
        names = Launcher.node_names(options.get("nodelist", ""))
    except UsageError:
        return
    if "/" not in options.get("nodelist", "") and len(names) > nodes:
        raise UsageError(
            f"sbatch option {_with_origin('nodelist', options, origins)} names {len(names)} nodes, but the run has "
            f"{nodes}: name {nodes}, or use --gpus {len(names) * gpus_per_node}"
        )


def check_srun(options: Mapping[str, str], origin: str) -> None:
    """Raise `UsageError` for an srun option, from `origin`, that is reserved for llmbx or invalid."""
    for name, value in options.items():
        key = option_name(name)
        if key in RESERVED_FOR_SRUN:
            raise UsageError(f"srun option {name}={value} ({origin}): llmbx sets it; {RESERVED[key]}")
        if not _OPTION.fullmatch(key):
            raise UsageError(f"srun option {name!r} ({origin}): a name has only letters, digits and dashes")
        if "\0" in value:
            raise UsageError(f"srun option {name} ({origin}): a value cannot contain a NUL byte")


def _conflicts(options: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for first, second in _CONFLICTS:
        if first in options and second in options and not (first == "gres" and "gpu" not in options["gres"]):
            yield first, second, ""
    both = set(options.get("nodelist", "").split(",")) & set(options.get("exclude", "").split(",")) - {""}
    if both:
        yield "nodelist", "exclude", f" ({', '.join(sorted(both))} is in both)"


def _with_origin(key: str, options: Mapping[str, str], origins: Mapping[str, str]) -> str:
    text = f"{key}={options[key]}" if options[key] else key
    origin = origins.get(f"slurm.sbatch.{key}")
    return f"{text} ({origin})" if origin else text


def _split(text: str, source: str) -> list[str]:
    parts, quote = [""], ""
    for char in text:
        if quote or char in "\"'":
            quote = "" if char == quote else quote or char
        if char == ";" and not quote:
            parts.append("")
        else:
            parts[-1] += char
    if quote:
        raise UsageError(f"{source}: missing closing quote ({quote}) in {text!r}")
    return [part.strip() for part in parts if part.strip()]


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
