"""Parser for the logs of torchtitan, which Primus runs beside Megatron.

`[titan] 2026-05-18 16:04:46,338 - root - INFO - step: 14  loss:  3.24405  grad_norm:  0.8319  memory:
9.46GiB(64.99%)  tps: 7,282  tflops: 0.52  mfu: 0.17%`; releases of 2024 have `wps` for `tps`, and no TFLOP/s or norm of
the gradients. The first step and every n-th one have a line, with means since the line before. It has no time: this
follows from the tokens per second if the log states the tokens of a step, else from the stamps of two lines.
"""

from __future__ import annotations

import re

from llmbx.api import CUT, Attempts, Event, LogParser, Prints, Signatures, Step, read_real, read_whole, split_label

from .fields import NUMBER, resolution, seconds_of

STEP = re.compile(
    r"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(?P<ms>\d{3}) - \S+ - \w+ - .{0,20}?\bstep: +(?P<number>\d+) +loss: "
    r"(?=.*\b[tw]ps: +[\d,.]+)"
)
_VALUE = rf"(?:\d[\d,]*(?:\.\d+)?|{NUMBER})"
_FIELD = re.compile(rf"(?:^|\s)(?P<key>loss|grad_norm|memory|[tw]ps|tflops): +(?P<value>{_VALUE})")
_BEGUN = re.compile(
    r"local batch size:? (?P<micro>\d+), global batch size:? (?P<batch>\d+), gradient accumulation steps:? "
    r"(?P<accumulated>\d+), sequence length:? (?P<length>\d+), total steps:? (?P<total>\d+)"
)
GIB = 2**30


class TorchtitanParser(LogParser):
    """Incremental parser for the logs of torchtitan. Of the ranks that print a step, the first is read."""

    first_step = 1
    prints = Prints(fields=("loss", "tokens_per_s_per_gpu"), finished=True, cross_entropy=True, interval_means=True)
    signs = ("step:", "global batch size", "Training ")

    def __init__(self) -> None:
        self._attempts = Attempts()
        self._signatures = Signatures()
        self._last: tuple[int, float | None] | None = None
        self._batch: int | None = None
        self._length = 0
        self._total: int | None = None
        self._rank_tokens: int | None = None

    @property
    def waits(self) -> bool:  # type: ignore[override]
        """Whether a traceback is open."""
        return self._signatures.waits

    def feed(self, line: str) -> list[Step | Event]:
        """Return the records that become known with this line."""
        records: list[Step | Event] = []
        if "step:" in line and not line.endswith(CUT) and (match := STEP.search(line)):
            records += self._step(match, line)
        elif match := _BEGUN.search(line) if "global batch size" in line else None:
            records += self._begun(match, line)
        elif "Training completed" in line or "Training successfully completed" in line:
            self._signatures.finished()
            records.append(Event(kind="finished", text=split_label(line)[2].strip()[:500]))
        return [*records, *self._signatures.feed(line)]

    def _step(self, match: re.Match[str], line: str) -> list[Step | Event]:
        number = read_whole(match["number"])
        if self._last is not None and number in (self._last[0], self._last[0] - 1):
            return []  # another rank's line
        restarted = self._attempts.step(number, line)
        if restarted:
            self._signatures, self._last = Signatures(), None
        text = line[match.end("number") :]
        values = {field["key"]: field["value"].replace(",", "") for field in _FIELD.finditer(text)}
        stamp = seconds_of(match["stamp"])
        at = stamp + int(match["ms"]) / 1000 if stamp is not None else None
        rate = read_real(values.get("tps") or values.get("wps") or "0")
        step = Step(
            number=number,
            total=self._total,
            time_s=self._time(number, at, rate),
            tokens_per_s_per_gpu=rate or None,
            tflops_per_gpu=_real(values.get("tflops")),
            tflops_resolution=resolution(values.get("tflops")),
            loss=_real(values.get("loss")),
            grad_norm=_real(values.get("grad_norm")),
            global_batch_size=self._batch,
            tokens=self._batch * self._length if self._batch and self._length else None,
            peak_memory_bytes=round((_real(values.get("memory")) or 0.0) * GIB) or None,
            attempt=self._attempts.current,
            printed_at=at,
        )
        self._last = (number, at)
        return [*restarted, step]

    def _time(self, number: int, at: float | None, rate: float) -> float | None:
        if self._rank_tokens and rate:
            return self._rank_tokens / rate
        if self._last is None or self._last[1] is None or at is None or at <= self._last[1]:
            return None
        return (at - self._last[1]) / (number - self._last[0])

    def _begun(self, match: re.Match[str], line: str) -> list[Step | Event]:
        micro, batch, accumulated, length, total = map(read_whole, match.groups())
        restarted = self._attempts.start(line) if self._last is not None else []
        if restarted:
            self._signatures, self._last = Signatures(), None
        self._batch, self._length, self._total = batch, length, total
        self._rank_tokens = micro * accumulated * length
        facts = {"micro_batch_size": micro, "global_batch_size": batch, "sequence_length": length}
        text = split_label(line)[2].strip()[:500]
        return [*restarted, Event(kind="started", text=text), Event(kind="fact", text=text, facts={**facts})]


def _real(text: str | None) -> float | None:
    return read_real(text) if text is not None else None
