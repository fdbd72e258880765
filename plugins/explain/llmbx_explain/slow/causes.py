"""The explanation of a slow run: causes with their shares of the lost time, and what is left."""

from __future__ import annotations

from typing import Any, Literal

from llmbx.api import Value

Certainty = Literal["sure", "likely", "consistent with"]


class Cause(Value, frozen=True):
    """One cause. `rank` and `node` are None if all ranks have it. `share` is of the lost time, None if unknown."""

    id: str
    rank: int | None
    node: str | None
    share: float | None
    certainty: Certainty
    evidence: tuple[str, ...]
    confirm: str
    do: str


class SlowRun(Value, frozen=True):
    """What a mean step lost, against what, and why. The shares and `unexplained` add up to 1."""

    name: str
    step_s: float | None
    against: str
    lost_s_per_step: float | None
    causes: tuple[Cause, ...] = ()
    unexplained: float = 1.0
    missing: dict[str, str] = {}

    def as_json(self) -> dict[str, Any]:
        """Return the object of `--format json`."""
        return {
            "lost_s_per_step": self.lost_s_per_step,
            "causes": self.causes,
            "unexplained": self.unexplained,
        }
