"""What to look at and what to do about a failure, by its kind. Data only."""

from __future__ import annotations

from llmbx.api import Value


class Advice(Value, frozen=True):
    """`look`: what confirms the cause; `do`: what helps. One line each."""

    look: str
    do: str


NOT_STARTED = "not_started"
"""Kind of the failure of a run of which no rank was started."""

BY_KIND: dict[str, Advice] = {
    NOT_STARTED: Advice(look="the message", do="what the message says, then run it again"),
    "out_of_memory": Advice(
        look="the memory of the run (`llmbx predict`), and other processes on the GPU or the node",
        do="shard more, recompute activations or use a smaller micro-batch; for host memory fewer data workers",
    ),
    "gpu_error": Advice(
        look="the kernel log of the node (Xid, ECC), `nvidia-smi -q` and DCGM's diagnosis there",
        do="drain the node if its hardware is at fault; an illegal access is a fault of the program",
    ),
    "gpu_warning": Advice(
        look="the Xid in the kernel log of the node, and whether it comes again",
        do="run without this node, and test it",
    ),
    "network_warning": Advice(
        look="the port's counters and cable on the node (`ibstat`, `ethtool -S`)",
        do="run without this node, and have the link repaired",
    ),
    "network_error": Advice(
        look="whether the named host and port can be reached, and whether that rank died before",
        do="fix the address, the interface (NCCL_SOCKET_IFNAME, NCCL_IB_HCA) or the firewall; else leave the node out",
    ),
    "nccl_error": Advice(
        look="the ranks that waited, with `llmbx nccl` on a log with NCCL_DEBUG=INFO and COLL",
        do="find the rank that is missing in the last collective; its own log has the reason",
    ),
    "nccl_lagging": Advice(
        look="the log and the stack (py-spy dump) of the named rank, and its node",
        do="if its program hangs, fix it; if its GPU or node is slow or dead, leave the node out",
    ),
    "nccl_misuse": Advice(
        look="the ranks' GPUs: LLMBX_LOCAL_RANK, CUDA_VISIBLE_DEVICES, --gpus-per-node",
        do="give each rank a GPU of its own",
    ),
    "peer_lost": Advice(
        look="the ranks that print nothing here: one of them ended first; the scheduler's record of their nodes",
        do="read the log of that rank or node",
    ),
    "container_error": Advice(
        look="the container tool's own message, on the node that it names",
        do="log in to the registry, correct the image or the mounts, or leave the node out if only one is concerned",
    ),
    "scheduler_error": Advice(look="the options of the job", do="correct what the scheduler refuses"),
    "usage_error": Advice(look="the spelling of the option", do="correct the option; a retry cannot help"),
    "import_error": Advice(
        look="whether the image or environment is that of the recipe (`llmbx show`)",
        do="install the package, or change the image",
    ),
    "gated": Advice(look="HF_TOKEN, and the access of its account", do="ask for access, or set the token"),
    "cache_missing": Advice(look="the cache of the hub on the node", do="fetch the files where there is a network"),
    "disk_full": Advice(look="`df` and the quota of the folder in the line", do="free space, or write elsewhere"),
    "file_error": Advice(look="the path and its permissions on the node", do="correct the path or its mount"),
    "shared_memory": Advice(look="the size of /dev/shm in the container", do="raise it, or use fewer data workers"),
    "port_in_use": Advice(look="what listens on the port of the first node", do="choose another port"),
    "timeout": Advice(look="the time limit and the steps that were done", do="ask for more time, or fewer steps"),
    "preempted": Advice(look="the partition and the QOS", do="submit it again (`--retries` does so)"),
    "node_fail": Advice(look="the scheduler's record of the node", do="run without this node (`--retries` does so)"),
    "killed": Advice(
        look="the kernel log of the node for the OOM killer, and who ended the process",
        do="if it was memory, see above",
    ),
    "segfault": Advice(look="the stack trace, and the versions of the libraries", do="try the image of the recipe"),
    "rank_exit": Advice(look="the log of this rank alone", do="make the program print why it exits"),
}

OTHERWISE = Advice(look="the lines before it, and the program's own code", do="correct the program or its input")


def advice(kind: str) -> Advice:
    """The advice for a kind of failure."""
    return BY_KIND.get(kind, OTHERWISE)
