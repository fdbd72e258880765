"""How often the first failure is named, by what the other ranks print: python benchmarks/first_failure.py [ROUNDS]

A rank fails in one of the ways of `FAILURES`, and the other ranks print nothing, what follows from it, or failures of their
own that came later. Right is the cause with its rank. Ranks, nodes, times and orders are drawn anew in each round.
"""

# ruff: noqa: E501 (log lines are as long as they are)

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence

from llmbx.logs.signatures import Signatures
from llmbx.logs.timeline import failure

Lines = list[str]


def _raised(last: str) -> Callable[[int], Lines]:
    return lambda rank: [f"[rank{rank}]: {text}" for text in ("Traceback (most recent call last):", '  File "/w/train.py", line 3, in main', "    run()", last)]  # fmt: skip


FAILURES: dict[str, tuple[str, Callable[[int], Lines]]] = {
    "an exception": ("88213", _raised("ValueError: Sample 88213 has 4097 tokens")),
    "a class of the program": ("BadShard", _raised("mine.data.BadShard: shard 17 ends early")),
    "an assertion": ("heads", _raised("AssertionError: heads are not divisible by 3")),
    "a missing file": ("train_00", _raised("FileNotFoundError: [Errno 2] No such file or directory: '/d/train_00.idx'")),
    "a missing package": ("flash", _raised("ModuleNotFoundError: No module named 'flash_attn_3'")),
    "memory of the GPU": ("out of memory", _raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")),
    "memory of the host": ("MemoryError", _raised("MemoryError")),
    "a full disk": ("No space", _raised("OSError: [Errno 28] No space left on device: '/ckpt/x'")),
    "an illegal access": ("illegal", _raised("RuntimeError: CUDA error: an illegal memory access was encountered")),
    "an ECC error": ("ECC", _raised("RuntimeError: CUDA error: uncorrectable ECC error encountered")),
    "a signal": ("Segmentation", lambda rank: [f"srun: error: n{rank // 4}: task {rank}: Segmentation fault (core dumped)"]),
    "a kill": ("Killed", lambda rank: [f"srun: error: n{rank // 4}: task {rank}: Killed"]),
}  # fmt: skip
"""What the rank prints, or its launcher about it, and a part of the cause."""


def _echoes(rank: int, clock: str) -> Lines:
    return [
        f"[rank{rank}]:[W304 {clock}.112233 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=82): Connection reset by peer",
        f"[rank{rank}]:[E304 {clock}.408271 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=15, OpType=ALLREDUCE, Timeout(ms)=600000)",
        f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2, remote process exited or there was a network error",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        f"srun: error: n{rank // 4}: task {rank}: Aborted (core dumped)",
    ]


LATER = (
    "RuntimeError: DataLoader worker (pid 4711) exited unexpectedly",
    "OSError: [Errno 28] No space left on device",
    "ModuleNotFoundError: No module named 'tensorboard'",
    "RuntimeError: CUDA error: unspecified launch failure",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB.",
)
"""What other ranks raise some seconds later."""

CASES = {
    "nothing": "",
    "what follows from it": "echoes",
    "failures of their own, later": "later",
    "both, in any order, with times": "echoes later shuffled times",
    "what follows from it, in any order, no times": "echoes shuffled",
}


def log(what: str, case: str, draw: random.Random) -> tuple[Lines, int]:
    """The log of a failure, and the rank that failed."""
    ranks = draw.sample(range(64), 6)
    rank, others = ranks[0], ranks[1:]
    begun = draw.randrange(3600)
    blocks = [(begun, rank, FAILURES[what][1](rank))]
    if "later" in case:
        blocks += [(begun + 5 + k, other, _raised(draw.choice(LATER))(other)) for k, other in enumerate(others[:3])]
    if "echoes" in case:
        blocks += [(begun + 600, other, _echoes(other, _clock(begun + 600))) for other in others[2:]]
    if "shuffled" in case:
        draw.shuffle(blocks)
    lines = []
    for at, writer, texts in blocks:
        stamp = f"2026-03-04T{_clock(at)}Z " if "times" in case else ""
        lines += [stamp + (text if text.startswith("srun") else f"{writer}: {text}") for text in texts]
    return lines, rank


def _clock(second: int) -> str:
    return f"{8 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def right(lines: Sequence[str], part: str, rank: int) -> bool:
    """Whether the cause has this part and this rank."""
    signatures = Signatures()
    found = failure([event for line in lines for event in signatures.feed(line)], stepped=True, failed=True)
    return found is not None and part in found.cause and found.rank == rank


def main() -> int:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    draw = random.Random(1)
    for title, case in CASES.items():
        logs = [(what, log(what, case, draw)) for what in FAILURES for _ in range(rounds)]
        wrong = [what for what, (lines, rank) in logs if not right(lines, FAILURES[what][0], rank)]
        print(f"{title:46} {len(logs) - len(wrong):4} of {len(logs)}  {', '.join(dict.fromkeys(wrong))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
