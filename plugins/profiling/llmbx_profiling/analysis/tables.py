"""Print an analysis as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from llmbx.api.verbs import print_heading, print_rows

from .model import Analysis, Step

_TIMES = ("duration_s", "busy_s", "idle_s", "compute_s", "communication_s", "overlapped_s", "exposed_s")
STEP_COLUMNS = ("rank", "label", "step", *_TIMES)
MAX_STEP_ROWS = 40
"""If there are more rows, steps are summarized over ranks."""

_MILLISECONDS = (*_TIMES, "total_s", "mean_s", "max_s", "min_s", "start_s", "causes_s", "waits_s")


def step_rows(analysis: Analysis) -> list[dict[str, Any]]:
    """Return one row per step and rank, in seconds."""
    return [{name: getattr(step, name) for name in STEP_COLUMNS} for step in analysis.steps]


def render(analysis: Analysis) -> None:
    """Print the analysis; times are in milliseconds."""
    gpus = any(rank.kernels for rank in analysis.ranks)
    for title, show in (
        ("Ranks (sums over steps, ms)", _ranks),
        ("Steps (ms)", _steps),
        ("Kernels by time (ms)", _kernels),
        ("Exposed communication (ms)", _collectives),
        ("Longest idle gaps (ms)", _gaps),
        ("Ranges (ms)", _ranges),
        ("Stragglers (last rank to enter collectives, ms)", _stragglers),
    ):
        rows, columns = show(analysis, gpus)
        if rows:
            print_heading(title)
            print_rows(rows, columns, "table")
            click.echo()
    for line in _sentences(analysis):
        click.echo(line)


Shown = tuple[list[dict[str, Any]], Sequence[str]]
_FIGURES = ("busy", "idle", "compute", "communication", "overlapped", "exposed")


def _row(item: Any, **extra: Any) -> dict[str, Any]:
    """Return a value's fields, with seconds converted to milliseconds and without the unit in the names."""
    row = {}
    for name in item.__struct_fields__:
        value = getattr(item, name)
        if name in _MILLISECONDS:
            row[name.removesuffix("_s")] = _ms(value)
        else:
            row[name] = value
    return {**row, **extra}


def _ms(seconds: float | None) -> float | int | None:
    """Convert to milliseconds, rounded to 3 decimals, or to an integer from 1 s on."""
    if seconds is None:
        return None
    return round(seconds * 1e3) if seconds >= 1 else round(seconds * 1e3, 3)


def _ranks(analysis: Analysis, gpus: bool) -> Shown:
    rows = [_row(rank, rank=rank.label) for rank in analysis.ranks]
    return rows, ("rank", "steps", "kernels", "duration", *_FIGURES) if gpus else ("rank", "steps", "duration")


def _steps(analysis: Analysis, gpus: bool) -> Shown:
    if len(analysis.steps) <= MAX_STEP_ROWS:
        rows = [_row(step, rank=step.label) for step in analysis.steps]
        return rows, ("step", "rank", "duration", *_FIGURES) if gpus else ("step", "rank", "duration")
    grouped: dict[int | None, list[Step]] = {}
    for step in analysis.steps:
        grouped.setdefault(step.step, []).append(step)
    rows = [_over_ranks(number, steps) for number, steps in grouped.items()]
    return rows, ("step", "ranks", "shortest", "longest", *(("most exposed", "rank") if gpus else ()))


def _over_ranks(number: int | None, steps: Sequence[Step]) -> dict[str, Any]:
    lengths = [step.duration_s for step in steps]
    exposed = max(steps, key=lambda step: step.exposed_s or 0.0)
    return {
        "step": number,
        "ranks": len(steps),
        "shortest": _ms(min(lengths)),
        "longest": _ms(max(lengths)),
        "most exposed": _ms(exposed.exposed_s),
        "rank": exposed.label,
    }


def _kernels(analysis: Analysis, gpus: bool) -> Shown:
    rows = [_row(kernel, share=f"{kernel.share:.1%}") for kernel in analysis.top_kernels]
    return rows, ("share", "total", "calls", "mean", "max", "kind", "name")


def _collectives(analysis: Analysis, gpus: bool) -> Shown:
    rows = [_row(item) for item in analysis.top_collectives]
    return rows, ("exposed", "overlapped", "total", "calls", "mean", "operation", "name")


def _gaps(analysis: Analysis, gpus: bool) -> Shown:
    return [_row(gap, rank=gap.label) for gap in analysis.gaps], ("duration", "rank", "step", "start")


def _ranges(analysis: Analysis, gpus: bool) -> Shown:
    rows = [_row(item, range=f"{item.domain}:{item.text}" if item.domain else item.text) for item in analysis.ranges]
    return rows, ("range", "calls", "total", "mean", "min", "max")


def _stragglers(analysis: Analysis, gpus: bool) -> Shown:
    if analysis.stragglers is None:
        return [], ()
    rows = [
        _row(item, rank=item.label, last=f"{item.last_share:.1%}", causes_wait=_ms(item.causes_s))
        for item in analysis.stragglers.ranks
    ]
    return rows, ("rank", "last", "causes_wait", "waits")


def _sentences(analysis: Analysis) -> list[str]:
    sentences = []
    if analysis.exposed_share is not None:
        sentences.append(f"{analysis.exposed_share:.1%} of the step time is exposed communication.")
    if analysis.ceiling is not None:
        c = analysis.ceiling
        sentences.append(
            f"Upper bound on speed-up without it: {c.speedup:.2f}x "
            f"({c.step_s * 1e3:.1f} ms -> {c.without_s * 1e3:.1f} ms per step)."
        )
    if analysis.stragglers is not None:
        s = analysis.stragglers
        sentences.append(
            f"{s.matched} collectives were matched across ranks: at least {s.transfer_s * 1e3:.1f} ms transfer, "
            f"{s.wait_s * 1e3:.1f} ms waiting for the last rank"
            + (f" ({s.unmatched} could not be matched)." if s.unmatched else ".")
        )
    return sentences + [f"note: {note}" for note in analysis.notes]
