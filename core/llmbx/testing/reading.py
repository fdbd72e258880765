"""What a plugin's grammar makes of a log, and what is measured of it."""

from __future__ import annotations

import dataclasses

from ..logs.lines import LineReader
from ..logs.parser import LogParser
from ..measure.figures import Figures, measure
from ..model import Event, RunSpec, Step
from ..plugins.manager import Plugins, load
from ..run.collect import collect


@dataclasses.dataclass(frozen=True)
class Parsed:
    """Steps in the order of their numbers and events; `format` is the one that recognises the log best.

    `figures` are measured where a specification was given.
    """

    steps: list[Step]
    events: list[Event]
    format: str | None
    figures: Figures | None


def parse_text(text: str, spec: RunSpec | None = None, plugin: str | None = None) -> Parsed:
    """A log as its framework reads it: that of `spec`, or that of `plugin` where there is no specification."""
    plugins = load()
    name = plugin or (spec.plugin if spec else "")
    framework = plugins.framework(name)
    parser = framework.parse_log(spec)
    log = collect(parser, clean_lines(text))
    figures = None
    if spec is not None:
        figures = measure(spec, log.steps, framework.compute_flops(spec), first_number=first_step(parser))
    return Parsed(log.steps, log.events, _recognised(text, plugins), figures)


def clean_lines(text: str) -> list[str]:
    """A log's text as the lines that a grammar gets."""
    reader = LineReader()
    return [*reader.feed(text.encode()), *reader.close()]


def first_step(parser: LogParser) -> int | None:
    """The number that the grammar says its framework gives the first step; None where it says nothing."""
    return getattr(parser, "first_step", None)


def _recognised(text: str, plugins: Plugins) -> str | None:
    seen = {format_.name: format_.sniff(text) for format_ in plugins.log_formats()}
    best = max(seen, key=lambda name: seen[name], default=None)
    return best if best is not None and seen[best] else None
