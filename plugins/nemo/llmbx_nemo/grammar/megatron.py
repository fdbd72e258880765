"""Parser for the logs of Megatron-Bridge and Megatron-LM.

Iterations are numbered from 1, times are in milliseconds, and two ranks write. The lines are those of `training_log` in
either code base (Megatron-Bridge 0.3 to 0.6, Megatron-Core 0.16), and of what was made from it:
`[time] iteration 45/50 | consumed samples: 5760 | elapsed time per iteration (ms): 5710.2 | ...`, and in
Megatron-Bridge `Step Time : 5.71s GPU utilization: 1181.5MODEL_TFLOP/s/GPU`. In a pair `13372.8/13364.7` the first
value is that of the step, the second a running mean. Primus 26.5 prints `compute per GPU (TFLOP/s/GPU): 399.4 (avg
398.9)`, Megatron-DeepSpeed `elapsed time per iteration (s)` and `TFLOPs` after the last field of the others, GPT-NeoX
`approx flops per GPU: 150.3TFLOPS` and the name `lm_loss`.
"""

from __future__ import annotations

import math
import re

from llmbx.api import Attempts, Event, LogParser, Prints, Signatures, Step, read_real, read_whole, split_label

from . import facts, steptime
from .configuration import Summary
from .fields import Reading, RecordReader, Schema, integer, number, resolution, seconds, seconds_of
from .pairing import Pair, Pairing

_OTHER_LOSS = re.compile(
    r"aux|balanc|distill|eval|index|mtp|multi.?token|regulari|route|scale|seq_|test|valid|(?:^|[ _])z(?:$|[ _])"
)
"""Words in the names of losses that are not the model's own, or not one of a step."""


def _loss_of_a_fork(key: str) -> str | None:
    words = re.split(r"[ _/.-]+", key.lower())
    return "other loss" if "loss" in words and not _OTHER_LOSS.search(key.lower()) else None


SCHEMA = Schema(
    header=r"(?: ?\[(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{1,6})?\] )?"
    r"iteration\s+(?P<number>\d+)/\s*(?P<total>\d+|infinity)\s*\|",
    beginning=r"(?<=\d\d:\d\d\] )i|^ ?iteration ",
    keys={
        "elapsed time per iteration (ms)": "time",
        "elapsed time per iteration (s)": "time",
        "throughput per GPU (TFLOP/s/GPU)": "tflops",
        "compute per GPU (TFLOP/s/GPU)": "tflops",
        "approx flops per GPU": "tflops",
        "TFLOPs": "tflops",
        "TFLOPS": "tflops",
        "tokens per GPU (tokens/s/GPU)": "tokens",
        "tokens/s/GPU inst/harmonic mean": "tokens",
        "tokens/s/GPU": "tokens",
        "tokens/s/gpu": "tokens",
        "tokens per gpu per second (tgs)": "tokens",
        "TGS": "tokens",
        "consumed samples": "consumed",
        "learning rate": "lr",
        "global batch size": "batch",
        "actual seqlen": "sequence",
        "lm loss": "loss",
        "loss scale": "scale",
        "grad norm": "grad",
        "number of skipped iterations": "skipped",
        "number of nan iterations": "nan",
    },
    last="number of nan iterations",
    exponents={"ELAPSED TIME PER ITERATION (S)": 3, "MFLOPS": -6, "GFLOPS": -3, "PFLOPS": 3},
    similar=_loss_of_a_fork,
    mark=r"iteration\s+\d",
)

PATIENCE = 8
"""Number of lines after which a line that another process interrupted is dropped."""

LONGEST = 4096
"""Longer lines (in characters) are not considered as interrupted lines."""

_START = re.compile(r"\[after megatron is initialized|\[before the start of training|Starting training loop at")
_SUMMARY = "Configuration Summary ("
_FACTS = (
    "[after ", "[before ", "successfully ", "-checkpoint", "number of parameters", "memory (", "nexpected result",
    "Starting training", "falling back", "validation loss at", *facts.TORCH_SIGNS,
)  # fmt: skip
_LOOP = re.compile(r"Starting training loop at iteration (\d+)")


class _Cut:
    """A line that was interrupted, and the number of lines read since."""

    __slots__ = ("age", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.age = 0

    def wait(self) -> bool:
        """Count one more line. Returns whether to drop this one."""
        self.age += 1
        return self.age > PATIENCE


class MegatronParser(LogParser):
    """Incremental parser for the logs of Megatron-Bridge and Megatron-LM."""

    first_step = 1
    prints = Prints(
        fields=("loss", "grad_norm", "learning_rate", "global_batch_size", "consumed_samples", "skipped"),
        finished=True,
        cross_entropy=True,
        interval_means=True,
    )
    signs = ("iteration", "TFLOP/s/GPU", "Step Time", "] i", _SUMMARY, *_FACTS)

    def __init__(self) -> None:
        self._attempts = Attempts()
        self._records = RecordReader(SCHEMA)
        self._pairing = Pairing()
        self._halves: dict[str, _Cut] = {}
        self._broken: dict[str, _Cut] = {}
        self._base = 0
        self._summary = Summary()
        self._begin()

    @property
    def waits(self) -> bool:  # type: ignore[override]
        """Whether a line, the summary of the configuration or a traceback is open."""
        unfinished = self._records.waiting or self._halves or self._broken
        return bool(unfinished or self._summary.open or self._signatures.waits)

    def feed(self, line: str) -> list[Step | Event]:
        """Return the records that become known with this line."""
        if not self.waits and (reading := self._records.whole(line)):
            return [*self._step(reading, line), *self._note(self._signatures.feed(line))]
        records: list[Step | Event] = []
        if _may_measure(line) or self._records.waiting or self._halves or self._broken:
            records += [*self._measures(line), *SCHEMA.commas(line)]
        if _may_be_fact(line):
            records += self._other(line)
        if self._summary.open or _SUMMARY in line:
            records += self._summary.feed(line)
        return [*records, *self._note(self._signatures.feed(line))]

    def close(self) -> list[Step | Event]:
        """Return the remaining records: unpaired TFLOP/s values, or the steps of a log with only `Step Time` lines."""
        pairs = self._pairing.close()
        return self._tflops(pairs) if self._iterations else self._steps_of_rank_0()

    def _begin(self) -> None:
        self._signatures = Signatures()
        self._measured: set[int] = set()
        self._has_own_tflops: set[int] = set()
        self._lone: list[re.Match[str]] = []
        self._iterations = False

    def _measures(self, line: str) -> list[Step | Event]:
        label, _, text = split_label(line)
        broken = self._broken.get(label)
        short = broken is not None and len(text) <= LONGEST
        separated = steptime.deinterleave(broken.text, text, self._records.parse) if broken and short else None
        if separated is not None:
            for waiting in (self._halves, self._broken):
                waiting.pop(label, None)
            self._records.forget(label)
            self._add_step_times([separated[0]])
            return self._step(separated[1], line)
        text = self._complete_half(label, text)
        matches, text = steptime.extract(text)
        self._add_step_times(matches)
        readings, rest = self._records.read(label, text)
        records = [record for reading in readings for record in self._step(reading, line)]
        matches, rest = steptime.extract(rest)
        self._add_step_times(matches)
        self._remember(label, text, rest, any(reading.complete for reading in readings))
        return records

    def _complete_half(self, label: str, text: str) -> str:
        half = self._halves.get(label)
        done = steptime.complete(half.text, text) if half else None
        if done is None:
            return text
        del self._halves[label]
        self._add_step_times([done[0]])
        return done[1]

    def _remember(self, label: str, text: str, rest: str, whole: bool) -> None:
        for waiting in (self._halves, self._broken):
            cut = waiting.get(label)
            if cut is not None and cut.wait():
                del waiting[label]
        if "Step Time" in rest:
            start = rest.index("Step Time")
            self._halves[label] = _Cut(rest[start : start + LONGEST])
        cut_here = "Step Time" in rest or (not whole and (self._records.waiting or "TFLOP" in rest))
        if cut_here and "S" in text and len(text) <= LONGEST:
            self._broken[label] = _Cut(text)

    def _add_step_times(self, matches: list[re.Match[str]]) -> None:
        for match in matches:
            self._pairing.add_step_time(read_real(match["time"]), match["tflops"])
            if not self._iterations:
                self._lone.append(match)

    def _step(self, reading: Reading, line: str) -> list[Step | Event]:
        records: list[Step | Event] = [*self._attempts.step(reading.number, line)]
        if records:
            self._pairing.restart()
            self._begin()
        self._iterations, self._lone = True, []
        step = _step(reading, self._attempts.current)
        if step.tflops_per_gpu is not None:
            self._has_own_tflops.add(step.number)
        records.append(step)
        timed = step.time_s is not None and 0.0 < step.time_s <= 1e7
        if timed and step.time_s is not None and step.number not in self._measured:
            self._measured.add(step.number)
            records += self._tflops(self._pairing.add_iteration(step.number, step.time_s, step.global_batch_size))
        return records

    def _tflops(self, pairs: list[Pair]) -> list[Step | Event]:
        return [
            Step(
                number=iteration.number,
                tflops_per_gpu=step_time.tflops,
                tflops_resolution=resolution(step_time.text),
                attempt=self._attempts.current,
            )
            for iteration, step_time in pairs
            if iteration.number not in self._has_own_tflops
        ]

    def _steps_of_rank_0(self) -> list[Step | Event]:
        return [
            Step(
                number=self._base + k,
                time_s=read_real(match["time"]),
                tflops_per_gpu=read_real(match["tflops"]),
                tflops_resolution=resolution(match["tflops"]),
                attempt=self._attempts.current,
            )
            for k, match in enumerate(self._lone, start=1)
        ]

    def _other(self, line: str) -> list[Step | Event]:
        _, rank, text = split_label(line)
        if _START.search(text):
            return [*self._start(text)]
        peak = facts.memory(text) if "memory (" in text else None
        if peak is not None:
            used = int(peak.facts["peak_memory_bytes"])
            step = int(peak.facts["iteration"])
            return [peak, Step(number=step, peak_memory_bytes=used, attempt=self._attempts.current)]
        return [*self._note(facts.find(facts.MEGATRON, text, rank))]

    def _start(self, text: str) -> list[Event]:
        events = self._attempts.start(text)
        if events:
            self._pairing = Pairing()
            self._records = RecordReader(SCHEMA)
            self._begin()
        if loop := _LOOP.search(text):
            self._base = read_whole(loop[1])
            return events
        return [*events, Event(kind="started", text=text.strip()[:500])]

    def _note(self, events: list[Event]) -> list[Event]:
        if any(event.kind == "finished" for event in events):
            self._signatures.finished()
        return events


def _may_measure(line: str) -> bool:
    return ("iteration" in line and "|" in line) or "TFLOP/s/GPU" in line or "Step Time" in line or "] i" in line


def _may_be_fact(line: str) -> bool:
    return any(sign in line for sign in _FACTS)


def _step(reading: Reading, attempt: int) -> Step:
    values = reading.values
    loss, grad = number(values.get("loss") or values.get("other loss")), number(values.get("grad"))
    batch, sequence = integer(values.get("batch")), integer(values.get("sequence"))
    # Megatron prints only losses above zero, so a NaN is visible only in the counters next to it.
    if loss is None and reading.complete and grad is not None and math.isnan(grad):
        loss = math.nan
    if number(values.get("nan")) and (reading.complete or loss is not None):  # a loss beside it is that of other steps
        loss = math.nan
    return Step(
        number=reading.number,
        time_s=seconds(values.get("time"), -3),
        total=reading.total,
        tflops_per_gpu=number(values.get("tflops")),
        tflops_resolution=resolution(values.get("tflops")),
        tokens_per_s_per_gpu=number(values.get("tokens")),
        loss=loss,
        grad_norm=grad,
        learning_rate=number(values.get("lr")),
        loss_scale=number(values.get("scale")),
        global_batch_size=batch,
        consumed_samples=integer(values.get("consumed")),
        tokens=batch * sequence if batch and sequence else None,
        skipped=bool(number(values.get("skipped")) or 0.0),
        attempt=attempt,
        printed_at=seconds_of(reading.stamp),
    )
