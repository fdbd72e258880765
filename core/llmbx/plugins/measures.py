"""Validate the measures and sources that a plugin's log parser declares, and the values of its measures."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import asdict

from ..codec import convert
from ..errors import PluginError
from ..logs.lines import shortened
from ..model import Measure, Source, Step
from ..phrases import did_you_mean, plural
from .descriptions import describe_error, describe_type
from .plausible import MEASURE_LIMITS, sensible_measure

D = TypeVar("D", Measure, Source)

MOST = 32
"""Maximum number of measures, and of sources, of a format; and of names that faults are kept for."""


def read_declared(declared: object, attribute: str, kind: type[D], owner: str) -> tuple[D, ...]:
    """What a parser declares in its `attribute`, `measures` or `sources`. Raises `PluginError` if it is invalid."""
    place = f"{owner}: {attribute} of its log parser"
    if not isinstance(declared, tuple | list) or len(declared) > MOST:
        raise PluginError(f"{place}: expected a tuple of at most {MOST} {kind.__name__} records")
    for item in declared:
        if not isinstance(item, kind):
            raise PluginError(f"{place} contains {describe_type(item)}, expected {kind.__name__} records")
        try:
            convert(asdict(item), kind)
        except msgspec.ValidationError as error:
            raise PluginError(f"{place}: {describe_error(error)}") from None
    problem = _measures(declared) if kind is Measure else _sources(declared)
    if problem is not None:
        raise PluginError(f"{place}: {problem}")
    return tuple(declared)


def _measures(declared: Sequence[Measure]) -> str | None:
    counts = collections.Counter(measure.name for measure in declared)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        return f"'{twice}' is declared twice"
    wrong = next((m for m in declared if m.kind == "time" and m.unit != "s"), None)
    return f"'{wrong.name}' is a time in {wrong.unit}, expected the unit s" if wrong is not None else None


def _sources(declared: Sequence[Source]) -> str | None:
    outside = next((s.glob for s in declared if s.glob.startswith("/") or ".." in s.glob.split("/")), None)
    if outside is not None:
        return f"'{outside}' leads out of the run's folder"
    joined = next((s.glob for s in declared if any("**" in part and part != "**" for part in s.glob.split("/"))), None)
    return f"'{joined}': ** must be a whole part of the path" if joined is not None else None


def _shown(value: object) -> str:
    try:
        return shortened(str(value))
    except ValueError:  # an integer of thousands of digits
        return "an integer of thousands of digits"


class MeasureFaults:
    """Leaves out values of measures that are not declared or cannot be true, and remembers the first of each name."""

    def __init__(self, declared: Sequence[Measure], owner: str) -> None:
        self._declared = {measure.name: measure for measure in declared}
        self._owner = owner
        self._first: dict[str, str] = {}
        self._counts: collections.Counter[str] = collections.Counter()

    def without_faulty(self, step: Step) -> Step:
        """The step with the values that are declared and can be true."""
        if not step.measures:
            return step
        kept: dict[str, float] = {}
        for name, value in step.measures.items():
            measure = self._declared.get(name)
            valid = sensible_measure(measure, value) if measure is not None else None
            if valid is not None:
                kept[name] = valid
            elif name in self._first or len(self._first) < MOST:
                self._first.setdefault(name, self._describe(name, measure, step.number, value))
                self._counts[name] += 1
        changed: Step = step.replace(measures=kept)
        return changed

    def lines(self) -> Iterator[str]:
        """One line for each name with values that were left out."""
        for name, text in self._first.items():
            more = self._counts[name] - 1
            also = f" (and {plural(more, 'more values')})" if more else ""
            yield f"{self._owner}: {text}{also}"

    def _describe(self, name: str, measure: Measure | None, step: int, value: object) -> str:
        if measure is None:
            near = did_you_mean(name, self._declared) if self._declared else ""
            return f"measure '{shortened(name)}' is not declared by its log parser{near}; its values are left out"
        low, high = MEASURE_LIMITS[measure.kind]
        return (
            f"measure '{name}' of step {step} is {_shown(value)}, expected a number from {low:g} to {high:g}; "
            "the value is left out"
        )
