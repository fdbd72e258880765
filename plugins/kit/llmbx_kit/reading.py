"""Parse a log with a plugin's parser and measure it."""

from __future__ import annotations

import dataclasses

from llmbx.api import Event, Line, RunSpec, Step
from llmbx.api.contract import Figures, collect_log, measure_steps
from llmbx.api.verbs import Plugins, load_plugins


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
    plugins = load_plugins()
    framework = plugins.framework(plugin or (spec.plugin if spec else ""))
    parser = framework.parse_log(spec)
    log = collect_log(parser, clean_lines(text))
    figures = None
    if spec is not None:
        figures = measure_steps(
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
    return [*Line.of(text)]


def _best_format(text: str, plugins: Plugins) -> str | None:
    matches = {format_.name: format_.sniff(text) for format_ in plugins.log_formats()}
    best = max(matches, key=lambda name: matches[name], default=None)
    return best if best is not None and matches[best] else None
