"""Format the measurements of training logs: as tables like those of the recipes' scripts, and for CSV."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import asdict

from ..model import Figures
from ..model.failure import Failure
from ..model.result import MEASURE_NUMBERS, Window
from .parse_rows import Row
from .terminal import measure_text

COLUMNS = (
    "path", "experiment", "format", "status", "window", "steps_measured", "step_time_mean_s", "step_time_std_s",
    "tflops_per_gpu_mean", "tflops_per_gpu_std", "tokens_per_s", "tokens_per_s_per_gpu", "mfu", "stability",
    "stability_reason",
)  # fmt: skip
"""Columns of the CSV output, see `as_csv`. JSON has more (`as_json`)."""


STEADY = (
    "window", "window_reason", "steps_measured", "step_time_mean_s", "step_time_std_s", "step_time_median_s",
    "tflops_per_gpu_mean", "tflops_per_gpu_std", "tflops_source", "tokens_per_s", "tokens_per_s_per_gpu",
    "mfu", "measures", "stability",
)  # fmt: skip
"""The members of a row's `steady`."""


MOST_ECHOES = 20
"""Maximum number of a row's `echoes`."""


def as_json(row: Row) -> dict[str, Any]:
    """The row as a JSON object. Times in seconds, rates per second, `mfu` as a fraction; unknown values are None.

    `window` is the range of measured steps (A-B), or the requested range if there are none; `window_policy` is how it
    was chosen. `step_time_cv` is the standard deviation divided by the mean.
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


def _failure(found: Failure | None) -> dict[str, Any]:
    """Who failed first, and what followed; `infrastructure` is whether to try elsewhere."""
    return {
        "cause_rank": found.rank if found else None,
        "cause_ranks": found.ranks if found else (),
        "cause_node": found.node if found else None,
        "cause_time": found.time if found else None,
        "doubt": found.doubt if found else None,
        "infrastructure": found.infrastructure if found else None,
        "echoes": found.echoes[:MOST_ECHOES] if found else (),
    }


def _figures(figures: Figures, interval: tuple[float, float] | None = None) -> dict[str, Any]:
    time, tflops = figures.step_time_s, figures.tflops_per_gpu
    return {
        "window": _range(figures.window),
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


def _range(window: Window) -> str | None:
    return f"{window.first}-{window.last}" if window.first is not None else None


def as_csv(row: Row) -> dict[str, Any]:
    """The row with the parts of its stability as two columns, and each number of a measure as one."""
    stability, measures = row.figures.stability, row.figures.measures
    named = {
        f"measures.{name}.{field}": number
        for name, facts in measures.items()
        for field, number in facts.numbers.items()
    }
    return {**as_json(row), **named, "stability": stability.verdict, "stability_reason": stability.reason}


def columns(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns of the CSV output: the usual ones, and those of the measures that a row has."""
    names = dict.fromkeys(name for row in rows for name in row.figures.measures)
    return (*COLUMNS, *(f"measures.{name}.{field}" for name in names for field in MEASURE_NUMBERS))


def table(rows: Sequence[Row], full_names: bool = False) -> str:
    """Format the rows as the recipes' scripts do: one table per time unit and window, then the steady states."""
    steady = [row.replace(figures=row.steady) for row in rows if row.steady is not None]
    parts = [_tables(rows, full_names), _tables(steady, full_names)]
    return "\n".join(part for part in parts if part)


def _tables(rows: Sequence[Row], full_names: bool) -> str:
    groups = groupby(sorted(rows, key=_group), key=_group)
    return "\n".join(_group_table(unit, policy, list(members), full_names) for (unit, policy), members in groups)


def _group(row: Row) -> tuple[str, str]:
    return row.unit, row.figures.window.policy or ""


def _group_table(unit: str, policy: str, rows: Sequence[Row], full_names: bool) -> str:
    what = "Elapsed Time (ms) and TFLOPS/GPU Analysis" if unit == "ms" else "Train Step Timing and TFLOPS Analysis"
    which = {"last": "last iteration", "auto": "steady state"}.get(policy, f"iterations {policy}")
    heads = ["Experiment", "Status", f"Time Mean ({unit})", f"Time Std ({unit})", "TFLOPS_per_GPU Mean",
             "TFLOPS_per_GPU Std", "Tokens/s/GPU"]  # fmt: skip
    with_mfu = any(row.figures.mfu.value is not None for row in rows)
    heads += ["MFU (%)"] if with_mfu else []
    chosen = policy in ("last", "auto")
    cells = [
        [
            *_cells(row, unit, full_names),
            *([_number(row.figures.mfu.value, 100, 1)] if with_mfu else []),
            *([_range(row.figures.window) or "-"] if chosen else []),
            row.figures.stability.verdict or "-",
        ]
        for row in rows
    ]
    heads += ["Window"] if chosen else []
    heads.append("Stability")
    least = [10, 8, 13, 12, 19, 18, *[8] * 4]
    widths = [max(least[k], *(len(line[k]) for line in (heads, *cells))) for k in range(len(heads))]
    lines = [f"{what} ({which})", "=" * 80, _line(heads, widths), " ".join("-" * width for width in widths)]
    lines += [_line(line, widths) for line in cells]
    lines += [line for row in rows for line in _measure_lines(row, full_names)]
    if any(row.figures.tflops_per_gpu.source == "recomputed" for row in rows):
        lines.append("* recomputed from step time and model FLOPs: the log has no figure or rounds it too coarsely")
    return "\n".join(lines) + "\n"


def _measure_lines(row: Row, full_names: bool) -> list[str]:
    name = row.path if full_names else row.experiment
    return [f"{name}: {measure}: {measure_text(facts)}" for measure, facts in row.figures.measures.items()]


def _cells(row: Row, unit: str, full_names: bool) -> list[str]:
    scale = 1000 if unit == "ms" else 1
    time, tflops = row.figures.step_time_s, row.figures.tflops_per_gpu
    mark = "*" if tflops.source == "recomputed" else ""
    return [
        row.path if full_names else row.experiment,
        row.status,
        _number(time.mean, scale, 3),
        _number(time.std, scale, 3),
        _number(tflops.mean, 1, 2) + mark,
        _number(tflops.std, 1, 2),
        _number(row.figures.tokens_per_s_per_gpu, 1, 1),
    ]


def _number(value: float | None, scale: int, digits: int) -> str:
    return f"{value * scale:.{digits}f}" if value is not None else "-"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])])
