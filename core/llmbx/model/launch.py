"""What a launcher starts: topology, files and phases. Plain data; nothing in this module starts a process."""

from __future__ import annotations

from typing import Literal

from .base import Natural, Positive, Value

RANK_SOURCES = {
    "LLMBX_RANK": ("SLURM_PROCID", "0"),
    "LLMBX_LOCAL_RANK": ("SLURM_LOCALID", "0"),
    "LLMBX_NODE_RANK": ("SLURM_NODEID", "0"),
    "LLMBX_NODE_NAME": ("SLURMD_NODENAME", "$(uname -n)"),
    "LLMBX_WORLD_SIZE": ("SLURM_NTASKS", "1"),
    "LLMBX_LOCAL_WORLD_SIZE": ("SLURM_STEP_TASKS_PER_NODE", "1"),
    "LLMBX_MASTER_ADDR": ("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"),
}
"""Variables of a rank: the scheduler's variable that each is taken from if the launcher has not set it, and the value
of a single rank. `2(x3)` and `2,1` mean 2 (tasks of the first node).
"""

RANK_VARIABLES = (
    *RANK_SOURCES, "LLMBX_MASTER_PORT", *(source for source, _ in RANK_SOURCES.values()), "SLURM_JOB_ID"
)  # fmt: skip
"""Variables that a launcher sets for a rank and that the rank shim reads inside the container; runtimes forward them by
name.
"""

LOCAL = "local"
"""The launcher that is part of core: its ranks run on this machine."""

AUTO = "auto"
"""The runtime of a run for which none was chosen: the first that offers itself and works here."""

PREFLIGHT = "preflight"
"""Role of the phase that checks the nodes before the framework starts; `exit.json` names it if a check fails."""


JOB_NAME = "{job_name}"
"""Stands for the name of the job, such as `llmbx-4711-0`, in `Wrapping.launcher_flags` and `Wrapping.cleanup`. Every
start of a job has a name of its own; the launcher inserts it when the script runs.
"""


class Prefix(Value, frozen=True):
    """Command-line prefix of a rank. Several prefixes are listed in the order of the command line, outermost first."""

    argv: tuple[str, ...]
    """The words of the prefix."""
    ranks: str = "all"
    """Ranks that get the prefix: "all", "first", "0,8,15", "0-7", "first,mid,last" (`mid` is rank world size // 2)."""
    local_first: bool = False
    """Whether only the first rank of each node gets the prefix."""


class Capture(Value, frozen=True):
    """A profile that a phase records itself."""

    start: int
    """First profiled step, from 0."""
    stop: int
    """Step before which profiling ends, from 0."""
    tool: str
    """Name of the profiler's plugin."""
    required: bool = False
    """Whether the run fails if the profile is missing."""
    ranks: str = "first"
    """Ranks that take part ("all", "first", "0,8")."""
    output: str = ""
    """Where a later phase expects the file, relative to the run folder and without its suffix; empty: the profiler's
    default.
    """


class Phase(Value, frozen=True):
    """One step of a launch, run by all its ranks. The end of a phase is a barrier for all ranks."""

    role: str
    """Name of the phase, of a-z, 0-9, - and _; unique in the launch."""
    argv: tuple[str, ...]
    """Command line of one rank."""
    env: dict[str, str] = {}
    """Variables exported by value, in addition to `RunSpec.env`; must not contain secrets."""
    forward: tuple[str, ...] = ()
    """Variables forwarded by name: secrets."""
    prefixes: tuple[Prefix, ...] = ()
    """Prefixes that profilers put before `argv`."""
    ranks: Literal["all", "first"] = "all"
    """Whether all ranks run the phase or only the first."""
    needs: tuple[str, ...] = ()
    """Paths (or patterns), relative to the run folder, that must exist before the phase."""
    makes: tuple[str, ...] = ()
    """Paths (or patterns), relative to the run folder, that must exist after the phase; existing files of these names
    are removed before it.
    """
    skip_if: str | None = None
    """File whose existence skips the phase; checked when the phase would start."""
    capture: Capture | None = None
    """Profile that the phase records itself."""


class Mount(Value, frozen=True):
    """A host folder or file that is mounted into the container."""

    source: str
    """Path on the host."""
    target: str | None = None
    """Path in the container; None: same as `source`."""
    read_only: bool = False
    """Whether the mount is read-only."""
    optional: bool = False
    """Whether the mount is left out on nodes without `source`. Runtimes that the scheduler starts may not support this:
    `source` must then exist on every node.
    """

    def joined(self, read_only: str = "ro") -> str:
        """Return `source:target`, with `:ro` (or the tool's own word `read_only`) if it must not be written."""
        text = f"{self.source}:{self.target or self.source}"
        return f"{text}:{read_only}" if self.read_only else text


class Launch(Value, frozen=True):
    """Everything a launcher needs to start a run."""

    class Companion(Value, frozen=True):
        """A program that runs once on each node beside the ranks, for example to sample what the machine does.

        The first rank of a node starts it just before its own program, in the same container, so that it sees the same
        processes and devices under every launcher and runtime. It gets the variables of that rank and
        `LLMBX_COMPANION_OF`, the process id of the rank, with which it must end. What it prints to standard error is
        kept in NAME/node-N.err; neither a missing program nor its exit code matters to the run.
        """

        name: str
        """Name of the companion, of a-z, 0-9, - and _, and of its folder in the run folder."""
        argv: tuple[str, ...]
        """Its command line, run in the run folder."""
        files: dict[str, bytes] = {}
        """Files to write before the start, in its folder: name -> content."""
        before: bool = False
        """Whether it checks its node before the ranks start, in the node check of a launcher that has one, instead of
        running beside them. It prints a line `bad=REASON` if the node must not be used, `same.NAME=VALUE` for what has
        to be equal on all nodes, and `note=TEXT`.
        """

    nodes: Positive
    """Number of nodes."""
    ranks_per_node: Positive
    """Ranks on each node."""
    gpus_per_rank: Natural
    """GPUs of each rank; 0 for a CPU run."""
    phases: tuple[Phase, ...]
    """Phases in order."""
    files: dict[str, bytes] = {}
    """Files to write before the start: path relative to the run folder -> content."""
    mounts: tuple[Mount, ...] = ()
    """Mounts that the ranks need in addition to the run folder."""
    ranks_per_numa_node: Positive | None = None
    """Each rank is bound to the cores and memory of the NUMA node of its GPU; if the machine does not tell which one it
    is, of NUMA node (local rank // this). None: no binding.
    """
    companions: tuple[Launch.Companion, ...] = ()
    """Programs beside the ranks of each node; core adds those of `register_companions`."""

    @property
    def world_size(self) -> int:
        """Total number of ranks."""
        return self.nodes * self.ranks_per_node

    def ranks_of(self, phase: Phase) -> int:
        """Return the number of ranks that run `phase`."""
        return self.world_size if phase.ranks == "all" else 1


class Wrapping(Value, frozen=True):
    """How a runtime starts a rank in its container."""

    argv: tuple[str, ...] = ()
    """Command-line prefix of the rank shim."""
    launcher_flags: tuple[str, ...] = ()
    """Flags for the launcher's command, for containers that the scheduler starts; may contain `JOB_NAME`."""
    cleanup: tuple[str, ...] = ()
    """Command that removes on each node, at the end of the job, what the flags left there; may contain `JOB_NAME`. The
    launcher runs it outside the container and ignores its errors.
    """
    host_env: dict[str, str] = {}
    """Variables set outside the container."""
