"""Measures beyond the step time: what a log format declares, and where their values come from."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .base import Value

MeasureKind = Literal["count", "level", "time", "rate"]
Better = Literal["higher", "lower"]
OverRanks = Literal["sum", "mean", "max", "min"]

MEASURE_NAME = "[a-z][a-z0-9_]{0,39}"
"""Regular expression of the names of measures."""

MeasureName = Annotated[str, msgspec.Meta(pattern=f"^{MEASURE_NAME}$")]
Unit = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x20\x7f]{1,20}$")]


class Measure(Value, frozen=True):
    """A figure of each step that a log format declares. `Step.measures` has its values by name."""

    name: MeasureName
    """Name in every output: lower case letters, digits and underscores."""
    unit: Unit
    """Unit without spaces, for example `images`, `GB` or `s`."""
    kind: MeasureKind
    """`count`: an amount of the step, which also gives a rate per second; `level`: a state, such as memory in use;
    `time`: seconds of the step (its unit is `s`); `rate`: already per second.
    """
    better: Better | None = None
    """Which direction is an improvement (of a count: that of its rate). None: a comparison never calls it better or
    worse.
    """
    over_ranks: OverRanks | None = None
    """How the values that the files of several ranks have for one step become one value. A step that a rank's file
    lacks has none then. None: each value is that of the whole job.
    """
    help: str = ""
    """One sentence about what is measured."""


SourceKind = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,39}$")]


class Source(Value, frozen=True):
    """Other files of a run that a log format reads, beside the main log."""

    glob: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    """Pattern of the files, relative to the run's folder: `metrics-rank-*.jsonl`, `tb/**/events.out.tfevents.*`."""
    kind: SourceKind
    """`lines`: text, given to `feed`; `jsonl` (one JSON object per line), `tensorboard` (event files), `wandb` (files
    of an offline run), or the kind of a reader that a plugin registers: records, given to `feed_record`.
    """


class SourceRecord(Value, frozen=True):
    """One record of a source, for `LogParser.feed_record`. What is not known is None."""

    source: str
    """Its file, relative to the run's folder."""
    rank: int | None = None
    """The rank in the name of the file: `rank-3`, `rank_3` or `rank3`."""
    step: int | None = None
    """The step that the record names: `step` of a JSON object, `_step` of W&B."""
    wall_time: float | None = None
    """When it was written, in epoch seconds: `wall_time` of a JSON object, `_timestamp` of W&B."""
    values: dict[str, object] = {}
    """The values by name: the members of the JSON object, the scalars of an event, the history of W&B."""

    def number(self, name: str) -> float | None:
        """The value of this name if it is a finite number; None if it is missing, text, a boolean, nan or infinite."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
            return None
        return float(value)
