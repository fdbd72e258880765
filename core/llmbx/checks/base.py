"""The parts of a check: its description, what it reads, and what it may answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

from ..launchers.nodes import Node
from ..logs.order import LogOrder
from ..measure.figures import Figures
from ..model import Event, Prints, RunSpec, Step, Value

Effect = Literal["failed", "invalid", "not comparable", "warning"]
"""What a finding does to a run: `failed` keeps valid data and fails the run; `invalid` takes the data away, too."""

MOST = 0.8
"""Least share of the steps that must have a value which the format always prints; other lines may be damaged."""

OWN_CHECK = ":"
"""In the id of a check that a plugin brings: PLUGIN:ID."""


MEASURE = "measures."
"""Before the name of a measure, in `Conflict.field`."""


class Conflict(Value, frozen=True):
    """A step that a log has twice, with two values of `field`: time_s, loss, or `MEASURE` and a measure's name."""

    number: int
    field: str
    first: float
    second: float


class Arrival(Value, frozen=True):
    """When the line of a step was read from the growing log: epoch seconds of a clock that was not set meanwhile.

    It was written at most `width` seconds earlier: the log was read then, and did not have it.
    """

    number: int
    at: float
    width: float = 0.0


class Damage(Value, frozen=True):
    """What of a log could not be read as it is: lines that are too long, and numbers that cannot be true.

    `examples` has a line for each of the first numbers.
    """

    long_lines: int = 0
    numbers: int = 0
    examples: tuple[str, ...] = ()


class Evidence(Value, frozen=True):
    """Everything that the checks read. It is the last attempt's; values that are not known are None.

    `first` is the framework's number of the first step. `earlier` are the events of earlier attempts in the same log,
    `after` those that follow the first line of the last step. `ended_well` is whether the process succeeded and the
    last step was seen; of a log without a run, whether the last step that it announces was seen. `gpus` are the product
    names of the GPUs that the first rank saw, `nodes` what each node recorded. `order` is how the steps were ordered.
    `configured` has the facts that the framework's final configuration states, by name. `lasted_s` are the seconds from
    the start to the end of the run, `clock_set_s` those by which the wall clock was set in between.
    """

    steps: tuple[Step, ...]
    events: tuple[Event, ...] = ()
    earlier: tuple[Event, ...] = ()
    after: tuple[Event, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    spec: RunSpec | None = None
    prints: Prints | None = None
    figures: Figures | None = None
    first: int | None = None
    ended_well: bool = False
    gpus: tuple[str, ...] | None = None
    nodes: tuple[Node, ...] = ()
    order: LogOrder = "printed"
    configured: dict[str, int] = {}
    lasted_s: float | None = None
    clock_set_s: float = 0.0
    damage: Damage = Damage()

    def printed(self, field: str) -> bool:
        """Whether the line of every step has this field of `Step`."""
        return self.prints is not None and field in self.prints.fields

    @property
    def resumed(self) -> bool:
        """Whether the training continues from a checkpoint."""
        loads = any(event.kind == "checkpoint_loaded" for event in self.events)
        return loads or (self.spec is not None and self.spec.checkpoint.load is not None)


class NotPossible(Value, frozen=True):
    """The answer of a check whose input is missing, with the reason."""

    reason: str


Answer = str | NotPossible | None
"""What a check found, in one line; why it was not possible; or None if it passed."""


@dataclasses.dataclass(frozen=True)
class Check:
    """One rule about the result of a run."""

    id: str
    """Its name in `result.json`; of a plugin's check with the name of the plugin before it: PLUGIN:ID."""
    reads: str
    """What it looks at."""
    means: str
    """What a finding means."""
    do: str
    """What the user can do about a finding."""
    effect: Effect
    """What a finding does to the run."""
    test: Callable[[Evidence], Answer]
    """The rule. Pure: it reads the evidence only."""


NO_SPEC = NotPossible(reason="the log is not that of a run of llmbx, so nothing is known about what was asked for")
