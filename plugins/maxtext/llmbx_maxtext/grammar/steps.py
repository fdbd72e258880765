"""Parser for MaxText's log: step lines of all versions since 2023, and other events.

The line of the MaxText Llama 2 recipe is `completed step: 49, seconds: 7.908, TFLOP/s/device: 460.480,
Tokens/s/device: 1035.970, total_weights: 524288, loss: 0.000`. In 2023 it had `TFLOP/s` and no tokens. Since 2025 it
continues with `lm_loss`, `perplexity` and others, and follows absl's prefix `I1121 07:20:25.853725 140349491260288
metric_logger.py:265]` on standard error; forks add `lr` and `grad_norm`. Steps are counted from 0. Every process prints
every step: the last line of a step counts, as with `grep | tail -1`.

With PGLE two training phases share the log. If the entry script has printed their names, the steps of the collect phase
become events (`phase_step`, and `phase_time` with their median), and those of the measured phase become steps. A log of
the recipe's own scripts has no such lines: there a lower step number starts a new attempt.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping

from llmbx.api import (
    CUT,
    Event,
    LogParser,
    Prints,
    Signatures,
    Step,
    read_real,
    read_whole,
    split_label,
)

from ..pgle import COLLECT_START, WARM
from .facts import SIGNS, Facts, Found
from .stamps import seconds_of

RESOLUTION = 0.001
"""MaxText prints three decimals."""

_HEAD = re.compile(r"completed (?P<boundary>profiler activation/deactivation )?step: (?P<number>\d+),")
_STAMP = re.compile(r"[IWEF](\d{4} \d\d:\d\d:\d\d\.\d+) ")
_FIXED = {
    "seconds": "time_s",
    "TFLOP/s/device": "tflops_per_gpu",
    "TFLOP/s": "tflops_per_gpu",
    "Tokens/s/device": "tokens_per_s_per_gpu",
    "loss": "loss",
}
_FREE = {
    "total_weights": "tokens",
    "lr": "learning_rate",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
}
# Text of another process may directly follow a value that was cut off. If MaxText prints three decimals, a value is
# complete only with all three; any other value ends at a comma, a space or the end of the line.
_PAIR = re.compile(
    rf"(?<![\w/])(?:(?P<fixed>{'|'.join(_FIXED)}): (?P<decimals>-?(?:nan|inf|\d+\.\d{{3}}(?!\d)))"
    rf"|(?P<free>{'|'.join(_FREE)}): (?P<number>-?(?:nan|inf|\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?=,?(?:\s|$))))"
)
_COMMA = re.compile(rf"(?<![\w/])(?P<name>{'|'.join((*_FIXED, *_FREE))}): -?\d+,\d")
_STEPS = re.compile(r"Config param steps: (?P<steps>[1-9]\d{0,8})\s*$")
_PHASE = re.compile(r"llmbx: phase (?P<role>[\w-]+) begins")


class MaxTextParser(LogParser):
    """Incremental parser. `last` is the run's last step, `untimed` are steps whose printed time is invalid.

    If the last step is not known, it is the one that the configuration in the log states.

    Synthetic data is the same in every step, so that the model learns it by heart: its loss may become 0.000.
    """

    first_step = 0
    prints = Prints(fields=("loss",), every_rank=True, cross_entropy=True, zero_loss=True)
    signs = ("step: ", *SIGNS)

    def __init__(self, last: int | None = None, untimed: frozenset[int] = frozenset()) -> None:
        self._last, self._untimed = last, untimed
        self._is_given = last is not None
        self._found = Found()
        self._signatures = Signatures()
        self._attempt = 0
        self._highest: int | None = None
        self._stamp: str | None = None
        self._phase: str | None = None
        self._times: dict[int, float] = {}

    @property
    def waits(self) -> bool:  # type: ignore[override]
        """Whether a traceback is open."""
        return self._signatures.waits

    def feed(self, line: str) -> list[Step | Event]:
        """Return the records that become known with this line."""
        records: list[Step | Event] = []
        if "step: " in line:
            heads = list(_HEAD.finditer(line))
            records += _commas(line)
            stamped = _STAMP.search(line)
            stamp = stamped[1] if stamped else None
            ends = [*(head.start() for head in heads[1:]), len(line)]
            for head, end in zip(heads, ends, strict=False):
                cut = end < len(line) or line.endswith(CUT)
                records += self._step(read_whole(head["number"]), _values(line[head.end() : end], cut), line, stamp)
        if not self._is_given and "Config param steps: " in line and (stated := _STEPS.search(line)):
            self._last = int(stated["steps"]) - 1
        if "llmbx: phase " in line and (begun := _PHASE.search(line)):
            records += self._begin(begun["role"], line)
        return [*records, *self._found.find(split_label(line)[2], split_label(line)[1]), *self._signatures.feed(line)]

    def close(self) -> list[Step | Event]:
        """Return the step time of a collect phase that no other phase follows."""
        return self._summary()

    def _step(self, number: int, values: Mapping[str, float], line: str, stamp: str | None) -> list[Step | Event]:
        if number > 10**9:
            return [self._record(number, values, None)]  # core reports and drops it
        if self._phase == "collect":
            return self._collected(number, values, line)
        records: list[Step | Event] = []
        if self._restarts(number, stamp):
            self._attempt, self._highest, self._stamp = self._attempt + 1, None, None
            self._signatures, self._found = Signatures(), Found()
            facts: Facts = {"attempt": self._attempt, "fell_to": number}
            records.append(Event(kind="restarted", text=line.strip(), facts=facts))
        if self._highest is None or number >= self._highest:
            self._highest, self._stamp = number, stamp or self._stamp
        if number == self._last:
            self._signatures.finished()
        return [*records, self._record(number, values, stamp)]

    def _record(self, number: int, values: Mapping[str, float], stamp: str | None) -> Step:
        timed = values if number not in self._untimed else {}
        return Step(
            number=number,
            time_s=timed.get("time_s"),
            total=self._last,
            tflops_per_gpu=timed.get("tflops_per_gpu"),
            tflops_resolution=RESOLUTION if "tflops_per_gpu" in timed else None,
            tokens_per_s_per_gpu=timed.get("tokens_per_s_per_gpu"),
            loss=values.get("loss"),
            grad_norm=values.get("grad_norm"),
            learning_rate=values.get("learning_rate"),
            tokens=int(values["tokens"]) if math.isfinite(values.get("tokens", math.nan)) else None,
            attempt=self._attempt,
            printed_at=seconds_of(stamp) if stamp else None,
        )

    def _restarts(self, number: int, stamp: str | None) -> bool:
        """Whether a step number starts a new attempt, and is not a late line of another process."""
        if self._phase is not None or self._highest is None or number >= self._highest - 1:
            return False
        return stamp is None or self._stamp is None or stamp > self._stamp

    def _begin(self, role: str, line: str) -> list[Step | Event]:
        records: list[Step | Event] = self._summary()
        if self._highest is not None:
            self._attempt, self._highest = self._attempt + 1, None
            self._signatures, self._found = Signatures(), Found()
            facts: Facts = {"attempt": self._attempt, "phase": role}
            records.insert(0, Event(kind="restarted", text=line.strip(), facts=facts))
        self._phase = role
        return [*records, Event(kind="phase", text=line.strip(), facts={"role": role})]

    def _collected(self, number: int, values: Mapping[str, float], line: str) -> list[Step | Event]:
        if number in self._times or "time_s" not in values:
            return []
        self._times[number] = values["time_s"]
        facts: Facts = {"role": "collect", "number": number, "time_s": values["time_s"]}
        return [Event(kind="phase_step", text=line.strip(), facts=facts)]

    def _summary(self) -> list[Step | Event]:
        steady = [time for number, time in sorted(self._times.items()) if WARM <= number < COLLECT_START]
        self._times = {}
        if not steady:
            return []
        median = statistics.median(steady)
        text = f"phase collect: {median:.3f} s per step (median of {len(steady)})"
        facts: Facts = {"role": "collect", "step_time_s": median, "steps": len(steady)}
        return [Event(kind="phase_time", text=text, facts=facts)]


def _commas(line: str) -> list[Event]:
    """The values with a decimal comma."""
    fields = {**_FIXED, **_FREE}
    return [
        Event(kind="decimal_comma", text=match[0], facts={"name": match["name"], "field": fields[match["name"]]})
        for match in _COMMA.finditer(line)
    ]


def _values(body: str, cut: bool) -> dict[str, float]:
    """Return the values of a step line by field name. The last value of a line that was `cut` is ignored."""
    values: dict[str, float] = {}
    for pair in _PAIR.finditer(body.removesuffix(CUT) + ("#" if cut else "")):
        member = _FIXED[pair["fixed"]] if pair["fixed"] else _FREE[pair["free"]]
        values.setdefault(member, read_real(pair["decimals"] or pair["number"]))
    return values
