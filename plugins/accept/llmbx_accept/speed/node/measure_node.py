"""Measure one node with PyTorch, then pairs and groups of nodes (docs/how-to/check-nodes.md).

Usage: measure_node.py @PLAN. Every rank of the job runs it, one for each GPU, and writes a line of
JSON for each measurement to speed/rank-N.jsonl as soon as it has it: what a node measured alone is
kept if the network between nodes fails. PLAN is JSON: `budget_s` of a node, `precision` (half of a
95 % interval, as a fraction), `largest` (bytes), `disk` (a folder), `rounds` of pairs.

One file, with the environment's torch and Python's standard library: NCCL and CUDA on GPUs, gloo
on a CPU. Values are rates: larger is faster.
"""

from __future__ import annotations

import datetime
import functools
import json
import math
import os
import statistics
import sys
import time
from typing import Any, Callable

import torch
import torch.distributed as dist

LEAST = 5
"""Repetitions of a measurement, at least."""
MOST = 1000
GROUP_S = 120
"""Seconds that a group of ranks may need to meet."""


class Rank:
    """This rank, its device, and the file that it writes."""

    def __init__(self, plan: dict[str, Any]) -> None:
        env = os.environ
        self.plan = plan
        self.rank, self.local = int(env["LLMBX_RANK"]), int(env["LLMBX_LOCAL_RANK"])
        self.node, self.name = int(env["LLMBX_NODE_RANK"]), env["LLMBX_NODE_NAME"]
        self.world, self.ranks = int(env["LLMBX_WORLD_SIZE"]), int(env["LLMBX_LOCAL_WORLD_SIZE"])
        self.cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", self.local) if self.cuda else torch.device("cpu")
        if self.cuda:
            torch.cuda.set_device(self.device)
        else:
            torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // self.ranks))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.file = os.open(f"speed/rank-{self.rank}.jsonl", flags, 0o644)

    def write(self, measure: str, **facts: Any) -> None:
        """Append a line, which stays if the next measurement hangs."""
        line = {"node": self.name, "rank": self.rank, "local_rank": self.local, "measure": measure}
        os.write(self.file, (json.dumps({**line, **facts}) + "\n").encode())

    def wait(self) -> None:
        """Wait for what the device was asked to do."""
        if self.cuda:
            torch.cuda.synchronize()

    def repeat(self, once: Callable[[], Any], share_s: float, together: bool = False) -> list[float]:
        """Return the seconds of repetitions, until they are precise enough or the time is over.

        With `together` all ranks of the default group stop at the same repetition.
        """
        once()
        self.wait()
        ends, times = time.monotonic() + share_s, []  # type: float, list[float]
        while len(times) < MOST:
            for _ in range(LEAST):
                began = time.perf_counter()
                once()
                self.wait()
                times.append(time.perf_counter() - began)
            enough = narrow(times, self.plan["precision"]) or time.monotonic() > ends
            if together:
                flag = torch.tensor([0.0 if enough else 1.0], device=self.device)
                dist.all_reduce(flag, op=dist.ReduceOp.MAX)
                enough = flag.item() == 0.0
            if enough:
                break
        return times

    def measure(
        self, measure: str, unit: str, amount: float, once: Callable[[], Any], share_s: float,
        together: bool = False, **facts: Any,
    ) -> None:  # fmt: skip
        """Write the rates of an operation that does `amount` of `unit` times seconds."""
        times = self.repeat(once, share_s, together)
        rates = [amount / max(seconds, 1e-9) for seconds in times]
        self.write(measure, unit=unit, rates=[float(f"{rate:.5g}") for rate in rates], **facts)

    def attempt(self, measure: str, function: Callable[[], None]) -> None:
        """Measure, or write why it cannot be measured here."""
        try:
            function()
        except (RuntimeError, ValueError, AttributeError, OSError, TypeError) as error:
            reason = str(error).strip().split("\n")[0][:200] or type(error).__name__
            self.write(measure, missing=reason)


def narrow(times: list[float], precision: float) -> bool:
    """Return whether the mean is known within `precision` (95 %, as a fraction)."""
    mean = statistics.fmean(times)
    half = 2.0 * statistics.stdev(times) / math.sqrt(len(times))
    return half <= precision * mean


# ---- one device


def multiply(rank: Rank, name: str, share_s: float) -> None:
    """Multiply square matrices of a dtype: 2 n^3 operations."""
    size = 8192 if rank.cuda else 768
    if name == "fp8":
        one = torch.ones(size, size, device=rank.device).to(torch.float8_e4m3fn)
        scale = torch.ones((), device=rank.device)
        transposed = one.t()

        def once() -> Any:
            return torch._scaled_mm(one, transposed, scale, scale, out_dtype=torch.bfloat16)

    else:
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]
        first = torch.randn(size, size, device=rank.device, dtype=torch.float32).to(dtype)
        result = torch.empty_like(first)

        def once() -> Any:
            return torch.mm(first, first, out=result)

    rank.measure("gemm." + name, "TFLOP/s", 2 * size**3 / 1e12, once, share_s)


def copy(rank: Rank, share_s: float) -> None:
    """Copy within the device's memory: each byte is read and written."""
    count = rank.plan["largest"] * 16
    source = torch.ones(count, dtype=torch.uint8, device=rank.device)
    target = torch.empty_like(source)
    rank.measure("copy", "GB/s", 2 * count / 1e9, lambda: target.copy_(source), share_s)


def host(rank: Rank, share_s: float) -> None:
    """Copy from pinned memory of the host to the device, and back."""
    if not rank.cuda:
        raise RuntimeError("no GPU")
    count = rank.plan["largest"] * 4
    pinned = torch.empty(count, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(count, dtype=torch.uint8, device=rank.device)
    rank.measure("host_to_device", "GB/s", count / 1e9, lambda: there.copy_(pinned, True), share_s / 2)
    rank.measure("device_to_host", "GB/s", count / 1e9, lambda: pinned.copy_(there, True), share_s / 2)


def disk(rank: Rank, share_s: float) -> None:
    """Write a file on the node, and have it on the disk."""
    count = rank.plan["largest"]
    path = os.path.join(rank.plan["disk"], f"llmbx-speed-{os.getpid()}")
    data = os.urandom(count)

    def once() -> None:
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    try:
        rank.measure("disk", "MB/s", count / 1e6, once, share_s)
    finally:
        if os.path.exists(path):
            os.unlink(path)


def alone(rank: Rank, share_s: float) -> None:
    """Measure this rank's device, at the same time as the other ranks of the node."""
    for name in ("fp32", "bf16", "fp16", "fp8") if rank.cuda else ("fp32", "bf16"):
        rank.attempt("gemm." + name, functools.partial(multiply, rank, name, share_s))
    rank.attempt("copy", lambda: copy(rank, share_s))
    rank.attempt("host_to_device", lambda: host(rank, share_s))
    if rank.local == 0:
        rank.attempt("disk", lambda: disk(rank, share_s))


# ---- ranks of a group


def join(rank: Rank, address: str, port: int, number: int, count: int) -> None:
    """Make the default group."""
    dist.init_process_group(
        "nccl" if rank.cuda else "gloo",
        init_method=f"tcp://{address}:{port}",
        rank=number,
        world_size=count,
        timeout=datetime.timedelta(seconds=GROUP_S),
    )


def collectives(rank: Rank, share_s: float) -> None:
    """Measure the collectives inside the node, in the bytes a rank has by the time."""
    ranks, count = rank.ranks, rank.plan["largest"] // 4 // rank.ranks
    whole = torch.ones(count * ranks, device=rank.device)
    part = torch.ones(count, device=rank.device)
    amount = 4 * count * ranks / 1e9
    operations = {
        "all_reduce": lambda: dist.all_reduce(whole),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "all_to_all": lambda: dist.all_to_all_single(whole, whole.clone()),
    }
    for name, once in operations.items():
        measure = functools.partial(rank.measure, name, "GB/s", amount, once, share_s, True)
        rank.attempt(name, measure)


def partners(nodes: int, rounds: int) -> list[list[int]]:
    """Return for each round the partner of each node, by the circle method; -1: none."""
    places = list(range(nodes)) + ([-1] if nodes % 2 else [])
    result = []
    for _ in range(min(rounds, len(places) - 1)):
        half = len(places) // 2
        row = [-1] * nodes
        for one, other in zip(places[:half], reversed(places[half:])):
            if one >= 0 and other >= 0:
                row[one], row[other] = other, one
        result.append(row)
        places = [places[0], places[-1], *places[1:-1]]
    return result


def pairs(rank: Rank, share_s: float) -> None:
    """Exchange with the same local rank of another node, in rounds in which all nodes take part."""
    nodes = rank.world // rank.ranks
    count = rank.plan["largest"] // 4
    mine = torch.ones(count, device=rank.device)
    other = torch.empty_like(mine)
    rounds = partners(nodes, rank.plan["rounds"])
    for row in rounds:
        partner = row[rank.node]
        peer = partner * rank.ranks + rank.local

        def once(partner: int = partner, peer: int = peer) -> None:
            if partner < 0:
                return
            sends = [dist.P2POp(dist.isend, mine, peer), dist.P2POp(dist.irecv, other, peer)]
            for work in dist.batch_isend_irecv(sends):
                work.wait()

        times = rank.repeat(once, share_s / len(rounds), together=True)
        if partner >= 0:
            rates = [float(f"{8 * count / 1e9 / max(each, 1e-9):.5g}") for each in times]
            rank.write("pair", unit="GB/s", rates=rates, partner=partner)


def tree(rank: Rank, share_s: float) -> None:
    """Reduce over groups of 2, 4, 8 ... neighbouring nodes, all groups of a size at the same time."""
    nodes, count = rank.world // rank.ranks, rank.plan["largest"] // 4
    data = torch.ones(count, device=rank.device)
    sizes = [2**power for power in range(1, max(1, (nodes - 1).bit_length()) + 1)]
    for size in sizes:
        mine = None
        for first in range(0, nodes, size):
            last = min(first + size, nodes)
            members = list(range(first * rank.ranks, last * rank.ranks))
            group = dist.new_group(members)
            if rank.rank in members and last - first > 1:
                mine = group

        def once(mine: Any = mine) -> None:
            if mine is not None:
                dist.all_reduce(data, group=mine)

        times = rank.repeat(once, share_s / len(sizes), together=True)
        if mine is not None:
            rates = [float(f"{4 * count / 1e9 / max(each, 1e-9):.5g}") for each in times]
            rank.write(f"tree.{size}", unit="GB/s", rates=rates)


def main(argv: list[str]) -> None:
    """Measure this rank alone, then with its node, then with other nodes."""
    with open(argv[1][1:], encoding="utf-8") as file:
        plan = json.load(file)
    rank = Rank(plan)
    share_s = plan["budget_s"] / 12
    port = int(os.environ["LLMBX_MASTER_PORT"])
    alone(rank, share_s)
    if rank.ranks > 1:
        join(rank, "127.0.0.1", port + 1 + rank.node, rank.local, rank.ranks)
        collectives(rank, share_s)
        dist.destroy_process_group()
    if rank.world > rank.ranks:
        join(rank, os.environ["LLMBX_MASTER_ADDR"], port, rank.rank, rank.world)
        rank.attempt("pair", lambda: pairs(rank, 2 * share_s))
        rank.attempt("tree", lambda: tree(rank, 2 * share_s))
        dist.barrier()
    rank.write("done")
    sys.stdout.flush()
    os._exit(0)  # a teardown that hangs is no measurement


if __name__ == "__main__":
    main(sys.argv)
