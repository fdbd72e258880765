"""What confirms each cause, and what to do about it. Data only."""

from __future__ import annotations

from llmbx.api import Value


class Advice(Value, frozen=True):
    """One line each."""

    confirm: str
    do: str


CAUSES: dict[str, Advice] = {
    "throttle-power": Advice(
        confirm="`nvidia-smi -q -d POWER,PERFORMANCE` on the node; compare its limit with the other GPUs'",
        do="restore the GPU's power limit; at the default, a GPU that needs more than the others is slower than they",
    ),
    "throttle-thermal": Advice(
        confirm="the temperatures of the node's GPUs (`nvidia-smi -q -d TEMPERATURE`)",
        do="have the cooling of the node repaired; leave it out until then",
    ),
    "clock-limit": Advice(
        confirm="`nvidia-smi -q -d CLOCK,PERFORMANCE`: locked or application clocks",
        do="reset the clocks (`nvidia-smi -rgc`, `-rac`)",
    ),
    "slow-gpu": Advice(
        confirm="`llmbx nodes bisect`, or a matrix multiplication on each GPU alone",
        do="run without this node, and test the GPU",
    ),
    "slow-rank": Advice(
        confirm="a profile of this rank and of another (`llmbx profile`), or py-spy on both",
        do="find what this rank computes more than the others",
    ),
    "cpu-contention": Advice(
        confirm="`top -H` on the node while it runs, and the cores of the ranks (taskset -p)",
        do="end the other work, or give each rank cores of its own",
    ),
    "cpu-limit": Advice(
        confirm="cpu.max or cpu.cfs_quota_us of the process's cgroup",
        do="ask the scheduler or the container tool for more cores (--cpus-per-task, --cpus)",
    ),
    "paused-process": Advice(
        confirm="who sends SIGSTOP, freezes the cgroup, or attaches a debugger or profiler",
        do="stop whoever pauses the process",
    ),
    "memory-pressure": Advice(
        confirm="memory.stat and the limit of the cgroup; major faults (`pidstat -r`)",
        do="raise the memory limit, use fewer data workers, or end other work on the node",
    ),
    "swap": Advice(
        confirm="VmSwap in /proc/PID/status, `vmstat 1`",
        do="free memory on the node, raise the limit, or switch swap off",
    ),
    "data-loading": Advice(
        confirm="the same run with made-up data",
        do="use more data workers, prefetch, or move the data to a faster place",
    ),
    "checkpoint": Advice(
        confirm="the same run without checkpoints",
        do="save less often, or asynchronously",
    ),
    "evaluation": Advice(
        confirm="the same run without evaluation",
        do="evaluate less often, or on fewer batches; leave it out of a benchmark",
    ),
    "garbage-collection": Advice(
        confirm="the same run with gc.disable()",
        do="freeze the objects (gc.freeze()) and collect at fixed steps on all ranks at once",
    ),
    "network-latency": Advice(
        confirm="`ping`, or a small all-reduce between the nodes",
        do="find the slow hop; place the nodes closer to each other",
    ),
    "network-loss": Advice(
        confirm="retransmissions (`nstat -az TcpRetransSegs`), errors of the ports",
        do="have the cable, port or switch repaired; leave the node out until then",
    ),
    "network-fallback": Advice(
        confirm="the interface that is used (NCCL_DEBUG=INFO, GLOO_SOCKET_IFNAME) and its rate (ethtool)",
        do="choose the fast network (NCCL_SOCKET_IFNAME, NCCL_IB_HCA), or repair its driver",
    ),
    "disk": Advice(
        confirm="`iostat -x 1` on the node; a read of the same files alone",
        do="move the data or checkpoints to a faster disk, or cache them in memory",
    ),
    "threads": Advice(
        confirm="OMP_NUM_THREADS and the cores of the rank (taskset -p)",
        do="set OMP_NUM_THREADS to the cores of a rank",
    ),
    "numa-binding": Advice(
        confirm="`nvidia-smi topo -m` (CPU affinity) and the cores of the rank (taskset -p)",
        do="bind each rank to the cores next to its GPU (numactl, srun --cpu-bind, or bindpcie)",
    ),
    "foreign-gpu-process": Advice(
        confirm="`nvidia-smi` on the node",
        do="end the other process, or ask for the GPU alone",
    ),
    "recompute": Advice(
        confirm="the final configurations of both runs (configs/final.json)",
        do="recompute fewer layers, if the memory allows it",
    ),
    "graphs-off": Advice(
        confirm="the final configurations of both runs (configs/final.json)",
        do="switch CUDA graphs on again",
    ),
    "dtype-fallback": Advice(
        confirm="the final configurations of both runs; kernels in a profile",
        do="set the data type of the recipe, and see why it was not used",
    ),
    "wrong-work": Advice(
        confirm="`llmbx compare` of both runs, and the failed checks in result.json",
        do="run the same model, batch and sequence length",
    ),
    "compile": Advice(
        confirm="TORCH_LOGS=recompiles",
        do="keep the shapes constant, or mark them dynamic; leave these steps out of the window",
    ),
    "bubble": Advice(
        confirm="pipeline stages and microbatches in the final configuration",
        do="use more microbatches or virtual stages",
    ),
    "expert-imbalance": Advice(
        confirm="the tokens of each expert (the router's statistics)",
        do="balance the router (auxiliary loss, bias), or place experts otherwise",
    ),
    "warm-up": Advice(
        confirm="a longer run: the first steps stay slow, the later ones do not",
        do="begin the window later (--window)",
    ),
    "drift": Advice(
        confirm="a longer run; memory, clocks and temperature over time (llmbx report)",
        do="find what grows from step to step",
    ),
}
