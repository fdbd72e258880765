"""Which faults are tried in which log formats by the unit tests, and which beside them in `tests/thorough`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .faults import FAULTS, Fault
from .fresh import FRESH
from .silent import SILENT, Silent


class Case(NamedTuple):
    """A fault, by its name, in a log format."""

    name: str
    format: str


def split(faults: Mapping[str, Fault] | Mapping[str, Silent]) -> tuple[list[Case], list[Case]]:
    """The cases of the unit tests, and all others.

    The unit tests try every fault in its first format, and every verdict of every check in each format.
    """
    unit, others = [], []
    shown = set()
    for name, fault in faults.items():
        verdict = fault.effect if isinstance(fault, Fault) else fault.verdict
        for place, format_ in enumerate(fault.formats):
            key = (fault.check, verdict, format_)
            (others if place and key in shown else unit).append(Case(name, format_))
            shown.add(key)
    return unit, others


QUIET = {**SILENT, **FRESH}
"""The faults that passed in silence."""

UNIT_FAULTS, OTHER_FAULTS = split(FAULTS)
UNIT_SILENT, OTHER_SILENT = split({name: fault for name, fault in QUIET.items() if not fault.stays})
