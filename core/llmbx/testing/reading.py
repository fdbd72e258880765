"""Parse a log with a plugin's parser and measure it."""

from __future__ import annotations

import dataclasses

from ..logs.lines import LineReader
from ..measure.figures import measure
from ..model import Event, Figures, RunSpec, Step
from ..plugins.manager import Plugins, load
from ..run.collect import collect


@dataclasses.dataclass(frozen=True)
class Parsed:
    """Steps and events of a log."""

    steps: list[Step]
    """Steps, ordered by number."""
    events: list[Event]
    """Events, in the order of the log."""
    format: str | None
    """The log format with the best match."""
    figures: Figures | None
    """What was measured; None without a specification."""


def parse_text(text: str, spec: RunSpec | None = None, plugin: str | None = None) -> Parsed:
    """Parse a log with the parser of the framework `plugin`, or of the framework of `spec`."""
    plugins = load()
    name = plugin or (spec.plugin if spec else "")
    framework = plugins.framework(name)
    parser = framework.parse_log(spec)
    log = collect(parser, clean_lines(text))
    figures = None
    if spec is not None:
        figures = measure(
            spec,
            log.steps,
            framework.compute_flops(spec),
            first_number=parser.first_step,
            declared=parser.measures,
            judge=plugins.judge,
        )
    return Parsed(log.steps, log.events, _best_format(text, plugins), figures)


def clean_lines(text: str) -> list[str]:
    """Split a log's text into the lines that a parser gets."""
    reader = LineReader()
    return [*reader.feed(text.encode()), *reader.close()]


def _best_format(text: str, plugins: Plugins) -> str | None:
    seen = {format_.name: format_.sniff(text) for format_ in plugins.log_formats()}
    best = max(seen, key=lambda name: seen[name], default=None)
    return best if best is not None and seen[best] else None
