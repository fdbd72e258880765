"""MaxText's log format: detection, parser, and default measurement window."""

from __future__ import annotations

import functools
import re

from llmbx.api import LogFormat, LogParser, RunSpec

from ..pgle import COLLECT_START, COLLECT_STOP
from .steps import MaxTextParser

DRAINED = 1
"""Number of steps with invalid times after the step that writes a profile. MaxText's pipeline is empty then, so the
next step shows almost no time."""


def parser(spec: RunSpec | None) -> LogParser:
    """Return a new parser for the log of this run, or of any MaxText run."""
    return MaxTextParser(last=spec.steps - 1, untimed=untimed(spec)) if spec else MaxTextParser()


def untimed(spec: RunSpec) -> frozenset[int]:
    """Return the steps after a profile whose printed time is invalid. The core itself excludes the profiled steps."""
    if spec.profile:
        return frozenset(range(spec.profile.stop, spec.profile.stop + DRAINED + 1))
    profiled = spec.settings.get("profile_measured")
    return frozenset(range(COLLECT_START, COLLECT_STOP + DRAINED + 1) if profiled else ())


def formats(spec: RunSpec | None = None) -> list[LogFormat]:
    """Return the log format, with a parser for this run if `spec` is known."""
    return [LogFormat("maxtext", "MaxText", _sniff, functools.partial(parser, spec), _window)]


def _sniff(text: str) -> int:
    return len(re.findall(r"completed (?:profiler \S+ )?step: \d+, ", text))


def _window(experiment: str) -> str:
    """Return the last step, as in the recipe, or `auto` for a mini, which has no recipe."""
    return "auto" if "_mini_" in experiment else "last"
