"""What is to be started: a topology, files, and phases. Pure data; nothing here starts anything."""

from __future__ import annotations

from typing import Literal

from .base import Value

RANK_VARIABLES = (
    "LLMBX_RANK",
    "LLMBX_LOCAL_RANK",
    "LLMBX_WORLD_SIZE",
    "LLMBX_LOCAL_WORLD_SIZE",
    "LLMBX_NODE_RANK",
    "LLMBX_MASTER_ADDR",
    "LLMBX_MASTER_PORT",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_JOB_ID",
)
"""What a launcher sets around a rank and the rank shim reads inside its container; runtimes forward them by name."""


class Prefix(Value, frozen=True):
    """An argv put in front of a rank's own, on the ranks that `ranks` names ("all", "first", "0,8,15", "0-7",
    "first,mid,last"; `mid` is rank world size // 2). Several stand in the order of the command line, outermost first.

    `local_first` narrows the prefix to the first rank of each node.
    """

    argv: tuple[str, ...]
    ranks: str = "all"
    local_first: bool = False


class Capture(Value, frozen=True):
    """A profile that a phase itself takes (steps [start, stop) from zero, with which tool, and whether it must exist).

    `ranks` take part ("all", "first", "0,8"). `output` is where the file must lie, relative to the run folder and
    without its ending, for a later phase that needs it; empty: wherever the tool puts its files.
    """

    start: int
    stop: int
    tool: str
    required: bool = False
    ranks: str = "first"
    output: str = ""


class Phase(Value, frozen=True):
    """One launcher step: one srun, or one group of local processes. Its end is a barrier for all ranks.

    `argv` is the command of ONE rank. `env` is exported by value, `forward` by name (secrets). `needs` and `makes`
    are paths, relative to the run folder, that must exist before and after. A phase is skipped when the file
    `skip_if` exists when its turn comes.
    """

    role: str
    argv: tuple[str, ...]
    env: dict[str, str] = {}
    forward: tuple[str, ...] = ()
    prefixes: tuple[Prefix, ...] = ()
    ranks: Literal["all", "first"] = "all"
    needs: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    skip_if: str | None = None
    capture: Capture | None = None


class Mount(Value, frozen=True):
    """A folder or file of the host, visible in the container at the same path unless `target` says otherwise.

    An `optional` one is left out on a node that has no `source` (Pyxis cannot: there it must be on every node).
    """

    source: str
    target: str | None = None
    read_only: bool = False
    optional: bool = False


class Launch(Value, frozen=True):
    """Everything a launcher needs. `files` (path relative to the run folder -> bytes) are written before the start.

    `ranks_per_numa_node` binds each rank to the cores and the memory of NUMA node (local rank // this), where numactl
    is there to do so; None binds nothing.
    """

    nodes: int
    ranks_per_node: int
    gpus_per_rank: int
    phases: tuple[Phase, ...]
    files: dict[str, bytes] = {}
    mounts: tuple[Mount, ...] = ()
    ranks_per_numa_node: int | None = None

    @property
    def world_size(self) -> int:
        """Ranks in all."""
        return self.nodes * self.ranks_per_node


class Wrapping(Value, frozen=True):
    """How a runtime puts a rank into its container.

    `argv` goes in front of the rank shim; `launcher_flags` are srun's (Pyxis); `host_env` is set outside the container.
    """

    argv: tuple[str, ...] = ()
    launcher_flags: tuple[str, ...] = ()
    host_env: dict[str, str] = {}
