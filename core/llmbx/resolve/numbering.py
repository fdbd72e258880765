"""How a framework's log numbers the steps of a run: what a window's numbers can mean before there is a log."""

from __future__ import annotations

from ..model import RunSpec
from ..plugins.manager import Plugins


def first_number(spec: RunSpec, plugins: Plugins) -> int | None:
    """The number that the framework's log gives the first step, where its grammar says so."""
    return plugins.framework(spec.plugin).parse_log(spec).first_step


def bounds(steps: int, first: int | None) -> tuple[int, int]:
    """The lowest and the highest number that a step of a run can have; where the first is unknown it may be 0 or 1."""
    return (0, steps) if first is None else (first, first + steps - 1)


def doubtful(policy: str, steps: int) -> bool:
    """Whether it takes the first step's number to say if a run of so many steps reaches the window `policy`."""
    return fits(policy, steps, None) and not (fits(policy, steps, 0) and fits(policy, steps, 1))


def fits(policy: str, steps: int, first: int | None) -> bool:
    """Whether a run of so many steps reaches the end of the window `policy`, and its numbers overlap."""
    if "-" not in policy:
        return True
    lowest, highest = bounds(steps, first)
    return lowest <= int(policy.split("-")[1]) <= highest
