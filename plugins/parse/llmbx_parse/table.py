"""Format the rows: as tables like those of the recipes' scripts, as JSON, and for CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import asdict

from llmbx.api import Failure, Result
from llmbx.api.verbs import format_number

from .rows import Row

if TYPE_CHECKING:
    Facts = Any
    """The figures of a measure."""

COLUMNS = (
    "path",
    "experiment",
    "format",
    "status",
    "window",
    "steps_measured",
    "step_time_mean_s",
    "step_time_std_s",
    "tflops_per_gpu_mean",
    "tflops_per_gpu_std",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "mfu",
    "stability",
    "stability_reason",
)
"""Columns of the CSV output, see `as_csv`. JSON has more (`as_json`)."""

STEADY = (
    "window",
    "window_reason",
    "steps_measured",
    "step_time_mean_s",
    "step_time_std_s",
    "step_time_median_s",
    "tflops_per_gpu_mean",
    "tflops_per_gpu_std",
    "tflops_source",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "mfu",
    "measures",
    "stability",
)
"""The members of a row's `steady`."""

MEASURE_NUMBERS = ("mean", "std", "median", "min", "max", "steps", "per_second")
"""The numbers of a measure, each a column."""

HEADS = (
    "Experiment",
    "Status",
    "Time Mean ({unit})",
    "Time Std ({unit})",
    "TFLOPS_per_GPU Mean",
    "TFLOPS_per_GPU Std",
    "Tokens/s/GPU",
)

RULE = "=" * 80

LEAST_WIDTHS = (10, 8, 13, 12, 19, 18, 8, 8, 8, 8)

RECOMPUTED = "* recomputed from step time and model FLOPs: the log lacks it, or rounds too much"

MOST_ECHOES = 20
"""Maximum number of a row's `echoes`."""


def as_json(row: Row) -> dict[str, Any]:
    """The row as a JSON object.

    Times in seconds, rates per second, `mfu` as a fraction; unknown values are None. `window` is
    the range of measured steps (A-B), or the requested range if there are none; `window_policy` is
    how it was chosen. `step_time_cv` is the standard deviation divided by the mean.
    """
    steady = _figures(row.steady) if row.steady is not None else None
    return {
        "path": row.path,
        "experiment": row.experiment,
        "format": row.format,
        "status": row.status,
        **_figures(row.figures, row.step_time_interval_s),
        "attempts": row.attempts,
        "cause": row.cause,
        **_failure(row.failure),
        "unread": row.unread,
        "steady": {name: steady[name] for name in STEADY} if steady is not None else None,
        "checks": row.checks,
        "notes": row.notes,
    }


def _failure(failure: Failure | None) -> dict[str, Any]:
    """Who failed first, and what followed; `infrastructure` is whether to try elsewhere."""
    return {
        "cause_rank": failure.rank if failure else None,
        "cause_ranks": failure.ranks if failure else (),
        "cause_node": failure.node if failure else None,
        "cause_time": failure.time if failure else None,
        "doubt": failure.doubt if failure else None,
        "infrastructure": failure.infrastructure if failure else None,
        "echoes": failure.echoes[:MOST_ECHOES] if failure else (),
    }


def _figures(figures: Result, interval: tuple[float, float] | None = None) -> dict[str, Any]:
    time, tflops = figures.step_time_s, figures.tflops_per_gpu
    return {
        "window": _range(figures),
        "window_policy": figures.window.policy,
        "window_reason": figures.window.reason,
        "steps_measured": figures.steps_measured,
        "steps_seen": figures.steps_seen,
        **{f"step_time_{name}_s": value for name, value in asdict(time).items()},
        "step_time_cv": time.std / abs(time.mean) if time.mean and time.std is not None else None,
        "step_time_interval_s": interval,
        "tflops_per_gpu_mean": tflops.mean,
        "tflops_per_gpu_std": tflops.std,
        "tflops_source": tflops.source,
        "tokens_per_s": figures.tokens_per_s,
        "tokens_per_s_per_gpu": figures.tokens_per_s_per_gpu,
        "mfu": figures.mfu.value,
        "measures": figures.measures,
        "stability": figures.stability,
    }


def _range(figures: Result) -> str | None:
    window = figures.window
    return f"{window.first}-{window.last}" if window.first is not None else None


def as_csv(row: Row) -> dict[str, Any]:
    """The row with its stability as two columns, and each number of a measure as one."""
    stability = row.figures.stability
    numbers = {
        f"measures.{name}.{field}": number
        for name, facts in row.figures.measures.items()
        for field, number in facts.numbers.items()
    }
    return {
        **as_json(row),
        **numbers,
        "stability": stability.verdict,
        "stability_reason": stability.reason,
    }


def columns(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns of the CSV output: the usual ones, and those of the measures that a row has."""
    names = dict.fromkeys(name for row in rows for name in row.figures.measures)
    of_measures = [f"measures.{name}.{field}" for name in names for field in MEASURE_NUMBERS]
    return (*COLUMNS, *of_measures)


class Table(NamedTuple):
    """The rows of one time unit and window; `notes` are printed below them."""

    title: str
    heads: list[str]
    cells: list[list[str]]
    notes: list[str]

    @property
    def text(self) -> str:
        """The table as the recipes' scripts print it."""
        widths = self._widths
        lines = [self.title, RULE, _line(self.heads, widths)]
        lines.append(" ".join("-" * width for width in widths))
        lines += [*(_line(line, widths) for line in self.cells), *self.notes]
        return "\n".join(lines) + "\n"

    @property
    def width(self) -> int:
        """The length of its longest line."""
        return sum(self._widths) + len(self._widths) - 1

    @property
    def rows(self) -> list[dict[str, str | float | None]]:
        """The cells by their headings, numbers as such."""
        return [
            {head: _value(text) for head, text in zip(self.heads, line, strict=True)}
            for line in self.cells
        ]

    @property
    def _widths(self) -> list[int]:
        lines = (self.heads, *self.cells)
        return [
            max(LEAST_WIDTHS[column], *(len(line[column]) for line in lines))
            for column in range(len(self.heads))
        ]


def _value(text: str) -> str | float | None:
    try:
        return None if text == "-" else float(text)
    except ValueError:
        return text


def table(rows: Sequence[Row], full_names: bool = False) -> str:
    """Format the rows as the recipes' scripts do."""
    return "\n".join(part.text for part in tables(rows, full_names))


def tables(rows: Sequence[Row], full_names: bool) -> list[Table]:
    """One table per time unit and window, then the steady states."""
    steady = [replace(row, figures=row.steady) for row in rows if row.steady is not None]
    return [
        _table(unit, policy, list(members), full_names)
        for part in (rows, steady)
        for (unit, policy), members in groupby(sorted(part, key=_group), key=_group)
    ]


def _group(row: Row) -> tuple[str, str]:
    return row.unit, row.figures.window.policy or ""


def _table(unit: str, policy: str, rows: Sequence[Row], full_names: bool) -> Table:
    with_mfu = any(row.figures.mfu.value is not None for row in rows)
    with_window = policy in ("last", "auto")
    heads = [head.format(unit=unit) for head in HEADS]
    heads += ["MFU (%)"] if with_mfu else []
    heads += ["Window"] if with_window else []
    heads += ["Stability"]
    notes = [line for row in rows for line in _measure_lines(row, full_names)]
    if any(row.figures.tflops_per_gpu.source == "recomputed" for row in rows):
        notes.append(RECOMPUTED)
    cells = [_cells(row, unit, full_names, with_mfu, with_window) for row in rows]
    return Table(_title(unit, policy), heads, cells, notes)


def _title(unit: str, policy: str) -> str:
    if unit == "ms":
        what = "Elapsed Time (ms) and TFLOPS/GPU Analysis"
    else:
        what = "Train Step Timing and TFLOPS Analysis"
    windows = {"last": "last iteration", "auto": "steady state"}
    return f"{what} ({windows.get(policy, f'iterations {policy}')})"


def _measure_lines(row: Row, full_names: bool) -> list[str]:
    name = row.path if full_names else row.experiment
    measures = row.figures.measures
    return [f"{name}: {measure}: {_measure_text(facts)}" for measure, facts in measures.items()]


def _measure_text(facts: Facts) -> str:
    """A measure in one line: of a count the rate first, of others mean and deviation."""
    if facts.mean is None:
        return "unknown: no measured step has a value"
    spread = f" ± {format_number(facts.std)}" if facts.std is not None else ""
    mean = f"{format_number(facts.mean)}{spread} {facts.unit}"
    if facts.per_second is None:
        return mean
    return f"{format_number(facts.per_second)} {facts.unit}/s ({mean} per step)"


def _cells(row: Row, unit: str, full_names: bool, with_mfu: bool, with_window: bool) -> list[str]:
    figures = row.figures
    scale = 1000 if unit == "ms" else 1
    time, tflops = figures.step_time_s, figures.tflops_per_gpu
    mark = "*" if tflops.source == "recomputed" else ""
    return [
        row.path if full_names else row.experiment,
        row.status,
        _number(time.mean, scale, 3),
        _number(time.std, scale, 3),
        _number(tflops.mean, 1, 2) + mark,
        _number(tflops.std, 1, 2),
        _number(figures.tokens_per_s_per_gpu, 1, 1),
        *([_number(figures.mfu.value, 100, 1)] if with_mfu else []),
        *([_range(figures) or "-"] if with_window else []),
        figures.stability.verdict or "-",
    ]


def _number(value: float | None, scale: int, digits: int) -> str:
    return f"{value * scale:.{digits}f}" if value is not None else "-"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])])
