"""The log of torchtitan 0.3 (torchtitan/components/metrics.py and trainer.py).

The line of a step has no time, but the tokens per second of a rank; with its tokens per step they give the time.
"""

import re
from collections.abc import Iterator
from datetime import datetime

from llmbx.api import Event, LogParser, Prints, Signatures, Step

STEP = re.compile(
    r"\[titan\] (?P<at>[\d-]+ [\d:]+,\d{3}) .* step: +(?P<number>\d+)  loss: +(?P<loss>-?[\d.]+|nan|inf)  "
    r"grad_norm: +(?P<norm>-?[\d.]+|nan|inf)  memory: +(?P<gib>-?[\d.]+)GiB\(-?[\d.]+%\)  tps: (?P<tps>[\d,]+)  "
    r"tflops: (?P<tflops>[\d,.]+)  mfu: (?:[\d.]+%|N/A)$",
    re.MULTILINE,
)
BEGUN = re.compile(
    r"Trainer is initialized with local batch size (\d+), global batch size (\d+), gradient accumulation steps (\d+), "
    r"sequence length (\d+), total steps (\d+) "
)
SIZE = re.compile(r"Model \S+ \S+ size: ([\d,]+) total parameters$")
GIB = 2**30


class Parser(LogParser):
    """Steps counted from 1, one line each."""

    first_step = 1
    prints = Prints(fields=("loss", "grad_norm", "tokens_per_s_per_gpu"), finished=True)

    def __init__(self) -> None:
        self.signatures = Signatures()
        self.total: int | None = None
        self.batch: int | None = None
        self.rank_tokens: int | None = None

    def feed(self, line: str) -> Iterator[Step | Event]:
        if found := STEP.search(line):
            yield self._step(found)
        elif found := BEGUN.search(line):
            yield self._begun(found, line)
        elif found := SIZE.search(line):
            yield Event(kind="fact", text=line, facts={"parameters": number(found[1])})
        elif line.endswith("Training completed"):
            yield Event(kind="finished", text=line)
        yield from self.signatures.feed(line)

    def _step(self, found: re.Match[str]) -> Step:
        rate, memory = number(found["tps"]), float(found["gib"])
        return Step(
            number=int(found["number"]),
            total=self.total,
            time_s=self.rank_tokens / rate if rate and self.rank_tokens else None,
            tokens_per_s_per_gpu=float(rate) or None,
            tflops_per_gpu=float(found["tflops"].replace(",", "")),
            tflops_resolution=0.01,
            loss=float(found["loss"]),
            grad_norm=float(found["norm"]),
            global_batch_size=self.batch,
            peak_memory_bytes=round(memory * GIB) if memory > 0 else None,
            printed_at=datetime.strptime(found["at"], "%Y-%m-%d %H:%M:%S,%f").timestamp(),
        )

    def _begun(self, found: re.Match[str], line: str) -> Event:
        micro, batch, accumulated, length, total = map(int, found.groups())
        self.batch, self.total, self.rank_tokens = batch, total, micro * accumulated * length
        facts = {"micro_batch_size": micro, "global_batch_size": batch, "microbatches": accumulated}
        return Event(kind="fact", text=line, facts={**facts, "sequence_length": length})


def number(text: str) -> int:
    """The number of a text such as `6,163,712`."""
    return int(text.replace(",", ""))
