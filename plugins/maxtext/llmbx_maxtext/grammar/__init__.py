"""The grammar of MaxText's log: how it is recognised, read, and usually measured."""

from __future__ import annotations

import re

from llmbx.logs.parser import LogFormat, LogParser
from llmbx.model import RunSpec

from ..pgle import SEED_START, SEED_STOP
from .steps import MaxTextParser

SETTLE = 1
"""After a profile was written MaxText's pipeline is empty: the step after the writing one shows next to no time."""


def parser(spec: RunSpec | None) -> LogParser:
    """A fresh parser for the log of this run, or of any MaxText run."""
    return MaxTextParser(last=spec.steps - 1, untimed=untimed(spec)) if spec else MaxTextParser()


def untimed(spec: RunSpec) -> frozenset[int]:
    """Steps whose printed time is an artefact of a profile (the profiled ones themselves are known to the core)."""
    if spec.profile:
        return frozenset(range(spec.profile.stop, spec.profile.stop + SETTLE + 1))
    return frozenset(range(SEED_START, SEED_STOP + SETTLE + 1)) if spec.settings.get("seed_profile") else frozenset()


def formats() -> list[LogFormat]:
    """The one format, in all its versions."""
    return [LogFormat("maxtext", "MaxText", _sniff, MaxTextParser, _window)]


def _sniff(text: str) -> int:
    return len(re.findall(r"completed (?:profiler \S+ )?step: \d+, ", text))


def _window(experiment: str) -> str:
    """The last step, as the recipe has it; a mini has no recipe."""
    return "auto" if "_mini_" in experiment else "last"
