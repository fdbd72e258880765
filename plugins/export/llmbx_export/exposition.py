"""Runs in the text formats of Prometheus (0.0.4) and OpenMetrics (1.0), as pure functions of rows.

Sources: https://prometheus.io/docs/instrumenting/exposition_formats and
https://prometheus.io/docs/specs/om/open_metrics_spec, and the names of
https://prometheus.io/docs/practices/naming: base units, and the unit as the last part of a name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .measures import CREATED, INFO, INFO_HELP, INFO_LABELS, LABELS, MEASURES, Measure, Row, labels


def prometheus(rows: Sequence[Row]) -> str:
    """The runs for the textfile collector of node_exporter."""
    lines = [*_head(INFO, "gauge", INFO_HELP), *_info(rows)]
    for measure in (CREATED, *MEASURES):
        if samples := list(_samples(measure, rows)):
            lines += [*_head(measure.name, "gauge", measure.help), *samples]
    return "\n".join(lines) + "\n"


def openmetrics(rows: Sequence[Row]) -> str:
    """The runs in OpenMetrics: with units, an info metric, and the mark of the end."""
    lines = [*_head(INFO.removesuffix("_info"), "info", INFO_HELP), *_info(rows)]
    for measure in (CREATED, *MEASURES):
        if samples := list(_samples(measure, rows)):
            lines += _head(measure.name, "gauge", measure.help)
            lines += [f"# UNIT {measure.name} {measure.unit}"] if measure.unit else []
            lines += samples
    return "\n".join([*lines, "# EOF"]) + "\n"


def _head(name: str, kind: str, help_: str) -> list[str]:
    return [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]


def _info(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        yield f"{INFO}{_braces({**labels(row, LABELS), **labels(row, INFO_LABELS)})} 1"


def _samples(measure: Measure, rows: Sequence[Row]) -> Iterator[str]:
    """A sample of each run that has the value; an unknown one has none."""
    for row in rows:
        value = row[measure.column].timestamp() if measure is CREATED else row[measure.column]
        if value is not None:
            yield f"{measure.name}{_braces(labels(row, LABELS))} {value * measure.factor!r}"


def _braces(found: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{label}="{_escaped(value)}"' for label, value in found.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
