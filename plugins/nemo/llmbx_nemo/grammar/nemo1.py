"""Parser for the logs of NeMo 1: a progress bar that is redrawn after every step.

`Epoch 0: : 100%|██████████| 50/50 [23:22<00:00, reduced_train_loss=0.186, global_step=49.00, ...]`, with
`train_step_timing in s=24.00` among the values. The steps are numbered by `global_step`, from 0.
"""

from __future__ import annotations

import re

from llmbx.api import Attempts, Event, LogParser, Signatures, Step, read_whole

from . import facts
from .fields import NUMBER, integer, number, seconds

BAR = re.compile(r"Epoch \d+: *+:? *+\d*%?\|[^|]*\| *\d+/(?P<total>\d+) \[(?P<body>[^\]]*)(?P<end>\]?)")
_PAIR = re.compile(rf"(?P<key>[A-Za-z_][\w ]{{0,63}})=(?P<value>{NUMBER})(?=[,\]]|$)")


class Nemo1Parser(LogParser):
    """Incremental parser for the logs of NeMo 1."""

    signs = ("global_step=", "Trainer.fit")

    def __init__(self) -> None:
        self._attempts = Attempts()
        self._signatures = Signatures()

    @property
    def waits(self) -> bool:  # type: ignore[override]
        """Whether a traceback is open."""
        return self._signatures.waits

    def feed(self, line: str) -> list[Step | Event]:
        """Return the records that become known with this line."""
        records: list[Step | Event] = []
        if "global_step=" in line:
            for bar in BAR.finditer(line):
                records += self._bar(bar, line)
        if "Trainer.fit" in line:
            records += facts.find(facts.NEMO2, line, None)
            self._signatures.finished()
        return [*records, *self._signatures.feed(line)]

    def _bar(self, bar: re.Match[str], line: str) -> list[Step | Event]:
        # The last value of a progress bar that is cut off may be incomplete.
        body = bar["body"] if bar["end"] else bar["body"].rpartition(",")[0]
        values = {pair["key"].strip(): pair["value"] for pair in _PAIR.finditer(body)}
        step = integer(values.get("global_step"))
        if step is None:
            return []
        restarted = self._attempts.step(step, line)
        return [
            *restarted,
            Step(
                number=step,
                time_s=seconds(values.get("train_step_timing in s")),
                total=read_whole(bar["total"]) - 1,
                loss=number(values.get("reduced_train_loss")),
                learning_rate=number(values.get("lr")),
                attempt=self._attempts.current,
            ),
        ]
