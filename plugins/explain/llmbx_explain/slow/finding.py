"""What a rule finds: a cause, the time that it took, and the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .budget import Part
from .causes import Certainty

Kind = Literal["clock", "counter", "program", "configuration"]
"""Where a line of evidence is from: step clocks, samples, what the program noted, its configuration."""
SURE_SHARE = 0.05
"""What takes less of a step is `likely` at most."""


@dataclass(frozen=True)
class Line:
    """One line of evidence."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Finding:
    """A cause with its part of the steps, on one rank (its row) or all.

    What `is_everywhere` says nothing about the differences of ranks, so that the later rules ignore it. What is not
    `is_measured` is there, but what it costs is unknown.
    """

    id: str
    part: Part
    lines: Sequence[Line]
    row: int | None = None
    is_everywhere: bool = False
    is_measured: bool = True

    def certainty(self, share_of_step: float) -> Certainty:
        """Two kinds of evidence make a cause likely, or sure if it is a large part of a step."""
        if len({line.kind for line in self.lines}) < 2:
            return "consistent with"
        return "sure" if share_of_step >= SURE_SHARE else "likely"
