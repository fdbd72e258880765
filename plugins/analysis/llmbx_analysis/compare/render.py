"""Format a comparison for the terminal: what differs, the figures, the warnings, and the verdict at the end."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence

from llmbx_verdict.statistics import intervals, planning

from .comparison import Comparison, Difference, Metric, Side
from .differences import NOTABLE

WIDTH = 80
MOST = 15
"""Most differences that are printed. The JSON output has all."""

DIGEST = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")


def render(comparison: Comparison) -> str:
    """Format the comparison as text."""
    sides = {"A": comparison.a, "B": comparison.b}
    lines = [*(_title(name, side) for name, side in sides.items()), *_differences(comparison)]
    figures = [line for name, side in sides.items() for line in _measured(name, side)]
    if figures or comparison.metrics:
        lines += ["", *figures, *_table(comparison.metrics)]
    if comparison.warnings:
        lines.append("")
    for warning in comparison.warnings:
        lines += _wrapped("warning: ", warning)
    if shows := _wrapped("", _shows(comparison)):
        lines += ["", *shows]
    lines += ["", *_wrapped("", _verdict(comparison))]
    return "\n".join(lines) + "\n"


def _shows(comparison: Comparison) -> str:
    """What the data can show, and how many runs would show more."""
    detectable, change = comparison.detectable, comparison.change
    if detectable is None or change is None:
        return ""
    each, option = ("pairs", "--interleave") if change.over == "pairs" else ("runs a side", "--repeat")
    if {"log", "logs"} & {comparison.a.kind, comparison.b.kind}:
        option = ""
    ways = []
    for size, runs in detectable.runs.items():
        if float(size.rstrip("%")) < 100 * detectable.fraction:
            how = f" ({option} {runs})" if option and runs else ""
            ways.append(f"{size.rstrip('%')} % takes {runs or f'more than {planning.MOST}'} {each}{how}")
    text = f"this data shows differences from {_percent(detectable.fraction)} on (in 8 of 10 cases)"
    return f"{text}; {', '.join(ways)}" if ways else text


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g} %" if fraction < 1 else f"{100 * fraction:.0f} %"


def _verdict(comparison: Comparison) -> str:
    if comparison.verdict != "not comparable":
        return f"{comparison.verdict}: {comparison.reason}"
    hint = "the figures above are not a verdict (--force)" if comparison.metrics else "--force shows the figures"
    return f"not comparable: {comparison.reason}; {hint}"


def _title(name: str, side: Side) -> str:
    several = f" ({len(side.runs)} {'logs' if side.kind == 'logs' else 'runs'})" if len(side.runs) > 1 else ""
    what = {"baseline": f"baseline {side.label}", "reference": f"published: {side.label}"}.get(side.kind, side.label)
    return f"{name}  {what}{several}"


def _measured(name: str, side: Side) -> list[str]:
    if side.step_time_s is None:
        return []
    steps = f", steps {' and '.join(side.windows)}" if side.windows else ""
    return _wrapped(f"{name}  ", f"step time {_interval(side.step_time_s, len(side.runs))}{steps}")


def _interval(interval: intervals.Interval, runs: int) -> str:
    digits = (
        max(1, 4 - math.floor(math.log10(interval.mean)))
        if interval.mean < 0.1
        else max(0, 4 - len(str(int(interval.mean)))) + 1
    )
    text = f"{interval.mean:.{digits}f} s"
    if interval.method == "exact":
        return text
    if interval.method == "rounded":
        return f"{text} (rounded: {interval.low:.6g} to {interval.high:.6g} s)" if interval.half_width else text
    text += f" ({100 * interval.level:g} % interval {interval.low:.{digits}f} to {interval.high:.{digits}f}"
    if interval.method == "median":
        return f"{text}; median of {interval.count} steps)"
    if interval.method == "ar1":
        effective = max(1, round(interval.effective_count or 1))
        return f"{text}; {interval.count} steps, equivalent to {effective} independent ones)"
    return f"{text}; {interval.count} {'runs' if runs > 1 else 'steps'})"


def _table(metrics: Sequence[Metric]) -> list[str]:
    if not metrics:
        return []
    rows = [("", "A", "B", "B vs. A", "")]
    for m in metrics:
        change = "-" if m.change_percent is None else f"{m.change_percent:+.2f} %"
        name = m.name if "." in m.name else m.name.replace("_", " ")
        rows.append((f"{name} [{m.unit}]", _figure(m.a), _figure(m.b), change, m.note or ""))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = []
    for name, *figures, note in rows:
        cells = [f"{text:>{width}}" for text, width in zip(figures, widths[1:], strict=True)]
        lines.append("  ".join(["", name.ljust(widths[0]), *cells, note]).rstrip())
    return lines


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _differences(comparison: Comparison) -> list[str]:
    if comparison.a.kind == "reference":
        title, none = "differences from the recipe", "no differences from the recipe"
    else:
        title, none = "differences, likeliest cause first", "no differences between the records"
    if {"log", "logs"} & {comparison.a.kind, comparison.b.kind}:
        none = "no differences that the logs state"
    notable = [d for d in comparison.differences if d.weight >= NOTABLE]
    if not comparison.differences:
        return ["", none]
    lines = ["", f"{title}:", *(line for d in notable[:MOST] for line in _difference(d))]
    hidden = len(comparison.differences) - len(notable[:MOST])
    if hidden:
        which = " that rarely matter" if len(notable) <= MOST else ""
        lines.append(f"  and {hidden} more{which}; use --format json to see them")
    return lines


def _difference(d: Difference) -> list[str]:
    note = f" ({d.note})" if d.note else ""
    return _wrapped(f"  {d.what}: ", f"{_value(d.a)} -> {_value(d.b)}{note}")


def _value(value: object) -> str:
    text = "unset" if value is None else DIGEST.sub(r"\1…", str(value))
    return text if len(text) <= 80 else f"{text[:77]}…"


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * min(len(head), 8), break_on_hyphens=False
    )
