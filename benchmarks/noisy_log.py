"""`llmbx parse` of a noisy log beside a bare Python loop over its lines: python benchmarks/noisy_log.py [LINES] [ROUNDS]

The log has one line of a step for every 1,000 lines of noise: NCCL's traces, a data loader's lines, warnings. The CPU
time of reading it with the parser of its format, and as a log of no known format, is divided by that of
`for line in open(...)`; each is measured in turn, with the compiled library and without, and the medians of the ratios
are printed.
"""

# ruff: noqa: E501 (log lines are as long as they are)

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from llmbx.logs import compiled_noise
from llmbx.logs.plain import PlainParser
from llmbx.run.collect import collect_file
from llmbx_nemo.grammar.megatron import MegatronParser

LINES = 2_300_000
ROUNDS = 5
EVERY = 1000
"""Lines of noise for each step."""

NOISE = (
    "{r}: n{n}:{p}:{q} [{g}] NCCL INFO AllReduce: opCount {k:x} sendbuff 0x7f{k:08x} recvbuff 0x7f{k:08x} count {k} datatype 9 op 0 root 0 comm 0x5581a0 [nranks=64] stream 0x5581b8",
    "{r}: n{n}:{p}:{q} [{g}] NCCL INFO Channel {g:02}/0 : {r}[{g}] -> {p}[{g}] [send] via NET/IB/{g}/GDRDMA",
    "{r}: n{n}:{p}:{q} [{g}] NCCL INFO NET/IB : Using [0]mlx5_{g}:1/RoCE [RO]; OOB eth0:10.0.0.{n}<0>",
    "{r}: I0304 08:20:25.{k:06} 140349491260288 checkpointing.py:{p}] Retrieved an item from the dataset loader in the host process",
    "{r}: /usr/lib/python3.12/site-packages/torch/autograd/graph.py:{p}: UserWarning: c10d::broadcast_: an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop through it",
    "{r}: DEBUG:megatron.core.distributed:bucket {k} of {p} params, {q} elements, started at 0x7f{k:08x}",
    "{r}: INFO:root:rank {r} loaded shard {k} of the index in {g}.{n} s",
)  # fmt: skip


def main() -> int:
    """Make the log, measure it, print the ratios."""
    lines, rounds = (int(text) for text in [*sys.argv[1:3], *map(str, (LINES, ROUNDS)[len(sys.argv) - 1 :])])
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "noisy.log")
        log.write_text("".join(_lines(lines)))
        print(f"{lines:,} lines, {log.stat().st_size / 1e6:,.0f} MB; CPU time as a multiple of a bare loop's, medians")
        for engine, load in {"compiled": compiled_noise.load, "Python": lambda: None}.items():
            compiled_noise.load = load  # type: ignore[assignment]
            for name, read in READERS.items():
                ratios, spent = _ratios(log, read, rounds)
                spread = f"({min(ratios):.1f} to {max(ratios):.1f})"
                print(f"  {name:16} {engine:9} {statistics.median(ratios):4.1f} {spread}, {spent:.2f} s")
    return 0


def _lines(count: int) -> Iterator[str]:
    """The lines of the log, with other numbers in each."""
    draw = random.Random(1)
    for number in range(count):
        if number % EVERY == EVERY - 1:
            yield f" [2026-03-04 08:20:25] iteration {number // EVERY + 1:8d}/{count // EVERY:8d} | consumed samples: {number:12d} | elapsed time per iteration (ms): 5710.2 | throughput per GPU (TFLOP/s/GPU): 500.1 | learning rate: 1.0E-05 | global batch size:   128 | lm loss: 1.1E+01 | loss scale: 1.0 | grad norm: 1.0 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        else:
            values = {"r": draw.randrange(64), "n": draw.randrange(8), "g": draw.randrange(8)}
            values |= {name: draw.randrange(1000, 99_999) for name in "pqk"}
            yield NOISE[number % len(NOISE)].format(**values) + "\n"


def _ratios(log: Path, read: Callable[[Path], object], rounds: int) -> tuple[list[float], float]:
    """The ratios of the rounds, and the median time of reading the log."""
    times = []
    for _ in range(rounds):
        times.append((_seconds(lambda: read(log)), _seconds(lambda: _bare(log))))
    return [ours / bare for ours, bare in times], statistics.median(ours for ours, _ in times)


READERS: dict[str, Callable[[Path], object]] = {
    "Megatron-Bridge": lambda log: collect_file(MegatronParser(), log),
    "no known format": lambda log: collect_file(PlainParser(), log),
}


def _bare(log: Path) -> int:
    count = 0
    with log.open() as file:
        for _ in file:
            count += 1
    return count


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
