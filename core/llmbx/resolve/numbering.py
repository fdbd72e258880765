"""Step numbers of a run before it has a log, to check whether it reaches its measuring window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model import RunSpec

if TYPE_CHECKING:
    from ..plugins.manager import Plugins


def first_number(spec: RunSpec, plugins: Plugins) -> int | None:
    """Return the number of the first step in the framework's log (0 or 1), if its parser states it."""
    return plugins.framework(spec.plugin).parse_log(spec).first_step


def bounds(steps: int, first: int | None) -> tuple[int, int]:
    """Return the lowest and highest possible step number of a run; if `first` is unknown (None), it may be 0 or 1."""
    return (0, steps) if first is None else (first, first + steps - 1)


def needs_first_number(policy: str, steps: int) -> bool:
    """Whether it depends on the first step's number if a run of `steps` steps reaches the window `policy`."""
    return reaches(policy, steps, None) and not (reaches(policy, steps, 0) and reaches(policy, steps, 1))


def reaches(policy: str, steps: int, first: int | None) -> bool:
    """Whether a run of `steps` steps that starts with number `first` reaches the end of the window `policy`."""
    if "-" not in policy:
        return True
    lowest, highest = bounds(steps, first)
    return lowest <= int(policy.split("-")[1]) <= highest
