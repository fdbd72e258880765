"""Parser for the logs of NeMo 2: iterations numbered from 0, times in seconds, one line per step.

`Training epoch 0, iteration 49/49 | lr: 7.496e-06 | ... | train_step_timing in s: 12.39 | consumed_samples: 6400`, as
the Llama 3.1 recipe (NeMo 2) quotes it; newer releases add `TFLOPS_per_GPU: 4.05e+02`. `iteration` is counted within an
epoch, so from the second epoch on the step number is `global_step`.
"""

from __future__ import annotations

import re

from llmbx.api import Attempts, Event, LogParser, Prints, Signatures, Step, split_label

from . import facts
from .fields import Reading, RecordReader, Schema, integer, number, resolution, seconds

SCHEMA = Schema(
    header=r"(?:Training epoch |^[a-z ]{0,15})(?P<epoch>\d+), iteration (?P<number>\d+)/(?P<total>\d+)\s*\|",
    beginning=r"Training e",
    keys={
        "train_step_timing in s": "time",
        "TFLOPS_per_GPU": "tflops",
        "tokens_per_sec_per_gpu": "tokens",
        "reduced_train_loss": "loss",
        "lr": "lr",
        "global_batch_size": "batch",
        "global_step": "step",
        "peak_memory_usage": "memory",
        "memory_allocated": "allocated",
        "consumed_samples": "consumed",
        "grad_norm": "grad",
    },
    last=None,
)

_START = re.compile(r"Initializing distributed: GLOBAL_RANK: 0,")
_MEASURES = ("Training e", ", iteration ")
_FACTS = (
    "Checkpoint", "Trainer.fit", "number of parameters", "Total params", "GLOBAL_RANK: ", "nexpected result",
    "processes registered", "number of microbatches", "falling back", "garbage collection", *facts.TORCH_SIGNS,
)  # fmt: skip


class Nemo2Parser(LogParser):
    """Incremental parser for the logs of NeMo 2."""

    first_step = 0
    prints = Prints(fields=("loss", "learning_rate", "global_batch_size"), finished=True, cross_entropy=True)
    signs = (*_MEASURES, *_FACTS)

    def __init__(self) -> None:
        self._attempts = Attempts()
        self._records = RecordReader(SCHEMA)
        self._signatures = Signatures()

    @property
    def waits(self) -> bool:  # type: ignore[override]
        """Whether a line or a traceback is open."""
        return self._records.waiting or self._signatures.waits

    def feed(self, line: str) -> list[Step | Event]:
        """Return the records that become known with this line."""
        records: list[Step | Event] = []
        if _may_measure(line) or self._records.waiting:
            label, _, text = split_label(line)
            readings, _ = self._records.read(label, text)
            records += [record for reading in readings for record in self._step(reading, line)]
            records += SCHEMA.commas(text)
        if _may_be_fact(line):
            records += self._other(line)
        return [*records, *self._signatures.feed(line)]

    def _step(self, reading: Reading, line: str) -> list[Step | Event]:
        step = _step(reading, self._attempts.current)
        restarted = self._attempts.step(step.number, line)
        if restarted:
            self._signatures = Signatures()
            step = step.replace(attempt=self._attempts.current)
        return [*restarted, step]

    def _other(self, line: str) -> list[Event]:
        _, rank, text = split_label(line)
        if _START.search(text):
            restarted = self._attempts.start(text)
            if restarted:
                self._records, self._signatures = RecordReader(SCHEMA), Signatures()
            return [*restarted, Event(kind="started", text=text.strip()[:500])]
        events = facts.find(facts.NEMO2, text, rank)
        if any(event.kind == "finished" for event in events):
            self._signatures.finished()
        return events


def _may_measure(line: str) -> bool:
    return any(sign in line for sign in _MEASURES)


def _may_be_fact(line: str) -> bool:
    return any(sign in line for sign in _FACTS)


def _step(reading: Reading, attempt: int) -> Step:
    values = reading.values
    later_epoch = reading.epoch > 0 and integer(values.get("step")) is not None
    return Step(
        number=integer(values["step"]) or 0 if later_epoch else reading.number,
        time_s=seconds(values.get("time")),
        total=reading.total,
        tflops_per_gpu=number(values.get("tflops")),
        tflops_resolution=resolution(values.get("tflops")),
        tokens_per_s_per_gpu=number(values.get("tokens")),
        loss=number(values.get("loss")),
        grad_norm=number(values.get("grad")),
        learning_rate=number(values.get("lr")),
        global_batch_size=integer(values.get("batch")),
        consumed_samples=integer(values.get("consumed")),
        peak_memory_bytes=integer(values.get("memory")),
        attempt=attempt,
    )
