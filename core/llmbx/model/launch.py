"""What is to be started: a topology, files, and phases. Pure data; nothing here starts anything."""

from __future__ import annotations

from typing import Literal

from .base import Value

RANK_SOURCES = {
    "LLMBX_RANK": ("SLURM_PROCID", "0"),
    "LLMBX_LOCAL_RANK": ("SLURM_LOCALID", "0"),
    "LLMBX_NODE_RANK": ("SLURM_NODEID", "0"),
    "LLMBX_NODE_NAME": ("SLURMD_NODENAME", "$(uname -n)"),
    "LLMBX_WORLD_SIZE": ("SLURM_NTASKS", "1"),
    "LLMBX_LOCAL_WORLD_SIZE": ("SLURM_STEP_TASKS_PER_NODE", "1"),
    "LLMBX_MASTER_ADDR": ("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"),
}
"""What a rank knows of itself: each variable with the scheduler's one that it is taken from if no launcher has set it,
and the value of a lone rank. `2(x3)` and `2,1` mean 2 (tasks of the first node).
"""

RANK_VARIABLES = (
    *RANK_SOURCES, "LLMBX_MASTER_PORT", *(source for source, _ in RANK_SOURCES.values()), "SLURM_JOB_ID"
)  # fmt: skip
"""What a launcher sets around a rank and the rank shim reads inside its container; runtimes forward them by name."""

PREFLIGHT = "preflight"
"""The role of the phase that checks the nodes before the framework starts; `exit.json` names it for a bad node."""


class Prefix(Value, frozen=True):
    """An argv put in front of a rank's own. Several stand in the order of the command line, outermost first."""

    argv: tuple[str, ...]
    """The words."""
    ranks: str = "all"
    """The ranks that get it: "all", "first", "0,8,15", "0-7", "first,mid,last" (`mid` is rank world size // 2)."""
    local_first: bool = False
    """Whether only the first rank of each node gets it."""


class Capture(Value, frozen=True):
    """A profile that a phase itself takes."""

    start: int
    """First profiled step, from 0."""
    stop: int
    """The step before which it ends."""
    tool: str
    """The profiler's plugin."""
    required: bool = False
    """Whether the profile must exist for the run to go on."""
    ranks: str = "first"
    """Who takes part ("all", "first", "0,8")."""
    output: str = ""
    """Where the file must lie for a later phase, relative to the run folder and without its ending; empty: wherever the
    tool puts its files.
    """


class Phase(Value, frozen=True):
    """One launcher step: one srun, or one group of local processes. Its end is a barrier for all ranks."""

    role: str
    """Its name, of a-z, 0-9, - and _; unique in the launch."""
    argv: tuple[str, ...]
    """The command of ONE rank."""
    env: dict[str, str] = {}
    """Variables exported by value, on top of `RunSpec.env`; never secrets."""
    forward: tuple[str, ...] = ()
    """Variables handed on by name: secrets."""
    prefixes: tuple[Prefix, ...] = ()
    """What profilers put around the argv."""
    ranks: Literal["all", "first"] = "all"
    """Whether all ranks start, or only the first."""
    needs: tuple[str, ...] = ()
    """Paths (or patterns), relative to the run folder, that must exist before."""
    makes: tuple[str, ...] = ()
    """Paths (or patterns) that must exist after; older files of these names in the run folder are removed before."""
    skip_if: str | None = None
    """A file that makes the phase unnecessary when it exists as its turn comes."""
    capture: Capture | None = None
    """The profile that the phase itself takes."""


class Mount(Value, frozen=True):
    """A folder or file of the host that the container sees."""

    source: str
    """Its path on the host."""
    target: str | None = None
    """Its path in the container; None: the same."""
    read_only: bool = False
    """Whether it must not be written."""
    optional: bool = False
    """Whether it is left out on a node that has no `source` (Pyxis cannot: there it must be on every node)."""


class Launch(Value, frozen=True):
    """Everything a launcher needs."""

    nodes: int
    """Machines."""
    ranks_per_node: int
    """Ranks of each of them."""
    gpus_per_rank: int
    """GPUs of each rank; 0 on a CPU."""
    phases: tuple[Phase, ...]
    """The phases in order."""
    files: dict[str, bytes] = {}
    """Path relative to the run folder -> bytes; written before the start."""
    mounts: tuple[Mount, ...] = ()
    """Folders that the ranks need beside the run folder."""
    ranks_per_numa_node: int | None = None
    """Binds each rank to the cores and the memory of NUMA node (local rank // this), where numactl is there to do so;
    None binds nothing.
    """

    @property
    def world_size(self) -> int:
        """Ranks in all."""
        return self.nodes * self.ranks_per_node


class Wrapping(Value, frozen=True):
    """How a runtime puts a rank into its container."""

    argv: tuple[str, ...] = ()
    """What goes in front of the rank shim."""
    launcher_flags: tuple[str, ...] = ()
    """srun's flags, for a launcher that takes them (Pyxis)."""
    host_env: dict[str, str] = {}
    """Variables set outside the container."""
