"""The explanation of a slow run as text, at most 80 columns wide. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from .causes import Cause, SlowRun

WIDTH = 80
SHORTEST_S = 0.0005
"""Less than this is called nothing."""


def text(slow: SlowRun) -> str:
    """Return what was lost, the causes in the order of their shares, and what was not collected."""
    return "\n".join(_lines(slow)) + "\n"


def _lines(slow: SlowRun) -> Iterator[str]:
    yield from _wrapped(_summary(slow))
    for cause in slow.causes:
        yield ""
        yield from _cause(cause)
    if slow.causes or _is_lost(slow):
        yield ""
        yield f"{100 * slow.unexplained:5.1f} %  unexplained"
    if slow.missing:
        yield ""
        yield "not collected:"
        for name, reason in slow.missing.items():
            yield from _wrapped(f"{name}: {reason}", "  ", "    ")


def _is_lost(slow: SlowRun) -> bool:
    return slow.lost_s_per_step is not None and slow.lost_s_per_step > SHORTEST_S


def _summary(slow: SlowRun) -> str:
    if slow.step_s is None:
        return "The time of a step is unknown."
    step = f"a step takes {slow.step_s:.4g} s"
    if slow.lost_s_per_step is None:
        return f"{step}; how much is lost is unknown"
    if not _is_lost(slow):
        return f"{step}; nothing is lost against {slow.against}"
    percent = 100 * slow.lost_s_per_step / slow.step_s
    return f"{step}, {slow.lost_s_per_step:.4g} s of it lost ({percent:.1f} %) against {slow.against}"


def _cause(cause: Cause) -> Iterator[str]:
    where = "" if cause.rank is None else f", rank {cause.rank}"
    where += "" if cause.node is None else f" on {cause.node}"
    yield from _wrapped(f"{_percent(cause.share)}  {cause.id}{where} ({cause.certainty})", "", " " * 9)
    for line in cause.evidence:
        yield from _wrapped(line, "         ", "           ")
    yield from _wrapped(f"confirm: {cause.confirm}", "         ", "           ")
    yield from _wrapped(f"do: {cause.do}", "         ", "           ")


def _percent(share: float | None) -> str:
    """Return a share of the lost time in eight columns; an unknown one as a question mark."""
    return "      ?" if share is None else f"{100 * share:5.1f} %"


def _wrapped(line: str, indent: str = "", next_indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        line,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=next_indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
