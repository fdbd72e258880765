"""The beginning of a report: key figures, and what ran where and when. For several cells also a verdict on all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from llmbx.api import (
    Fact,
    Value,
)
from llmbx.api.verbs import format_number

from ..compare import MeasuredRun
from ..formatting import started
from ..nodes import host_names
from .cells import Cell, RunData, title
from .figures import by_name
from .scaling import Family, families
from .verdicts import TONES, Verdict, verdict

KEY_FIGURES = (
    "step time", "throughput", "throughput per GPU", "throughput per rank", "compute per GPU", "compute per rank", "MFU"
)  # fmt: skip

"""Figures of one cell that the overview repeats, if they are known."""

MOST = 5
"""Most key figures."""

MOST_NAMES = 4
"""Most nodes, workloads and images that are named."""


class Overview(Value, frozen=True):
    """Key figures, the context as pairs of name and text, and a verdict on all cells if there are several."""

    facts: tuple[Fact, ...]
    context: tuple[tuple[str, str], ...]
    verdict: Verdict | None = None


def overview(cells: Sequence[Cell]) -> Overview:
    """The overview of one or several cells."""
    several = len(cells) > 1
    scaled = families(cells) if several else ()
    return Overview(
        facts=tuple(_best(cells, scaled) if several else _key_figures(cells[0]))[:MOST],
        context=tuple(_context(cells)),
        verdict=_summary(cells, scaled) if several else None,
    )


def _key_figures(cell: Cell) -> Iterator[Fact]:
    figures = {name: fact for name, fact in by_name(cell).items() if fact.value is not None}
    single = cell.spec.gpus == 1
    names = [name for name in KEY_FIGURES if name in figures and not (single and name.startswith("throughput per"))]
    yield from (figures[name] for name in names or ("steps in the log", "wall time") if name in figures)


def _best(cells: Sequence[Cell], scaled: Sequence[Family]) -> Iterator[Fact]:
    """The best throughput and MFU of all cells, with the cell, and the efficiency at the largest scales."""
    for name in ("throughput", "throughput per GPU", "throughput per rank", "MFU"):
        sized = [(fact, cell) for cell in cells if (fact := by_name(cell).get(name)) is not None and _size(fact)]
        if sized:
            best, cell = max(sized, key=lambda pair: _size(pair[0]))
            yield best.replace(name=f"highest {name}", note=cell.name)
    yield from (family.largest for family in scaled[:2] if family.largest is not None)


def _size(fact: Fact) -> float:
    return fact.value if isinstance(fact.value, float | int) else 0.0


def _summary(cells: Sequence[Cell], scaled: Sequence[Family]) -> Verdict:
    """The number of cells by verdict, and the scaling of each family."""
    verdicts = [verdict(cell) for cell in cells]
    words = Counter(verdict.word for verdict in sorted(verdicts, key=lambda verdict: TONES.index(verdict.tone)))
    counted = ", ".join(f"{count} {word}" for word, count in words.items())
    return Verdict(
        cell="",
        tone=min((verdict.tone for verdict in verdicts), key=TONES.index),
        word=f"{len(cells)} configurations: {counted}",
        text=" ".join(family.sentence for family in scaled) or "Every configuration was measured at one scale.",
    )


def _context(cells: Sequence[Cell]) -> Iterator[tuple[str, str]]:
    runs = [run for cell in cells for run in cell.runs]
    yield "workload", _listed([title(cell.spec) for cell in cells])
    yield "machine", machine(runs)
    yield "software", _listed([software(run) for run in runs])
    yield "started", _started(runs)
    hours = [run.result.gpu_hours for run in runs]
    if any(hours):
        yield "GPU time", f"{format_number(sum(hour or 0.0 for hour in hours))} GPU-hours"
    yield "runs", runs[0].record.run_id if len(runs) == 1 else f"{len(runs)}, see below"


def machine(runs: Sequence[RunData | MeasuredRun]) -> str:
    """The nodes and the launcher of runs."""
    names = _listed([name for run in runs for name in _nodes(run)]) or "unknown"
    return f"{names} (launcher {_listed([run.spec.launcher or 'unknown' for run in runs])})"


def _listed(texts: Sequence[str]) -> str:
    """The different texts, up to `MOST_NAMES`."""
    names = list(dict.fromkeys(texts))
    hidden = len(names) - MOST_NAMES
    return "; ".join(names[:MOST_NAMES]) + (f" and {hidden} more" if hidden > 0 else "")


def _nodes(run: RunData | MeasuredRun) -> tuple[str, ...]:
    """The names of the nodes; for a local run without recorded nodes, that of the host."""
    host = run.record.host.get("hostname") if run.spec.launcher == "local" else None
    return host_names(run.run.read_nodes()) or ((str(host),) if host else ())


def software(run: RunData | MeasuredRun) -> str:
    """The image, the first versions and the runtime of a run."""
    image = run.record.image
    versions = ", ".join(f"{name} {version}" for name, version in list(run.record.versions.items())[:4])
    shown = (image.reference if image else None) or "no image"
    return f"{shown}{f' ({versions})' if versions else ''}, runtime {run.spec.runtime or 'unknown'}"


def _started(runs: Sequence[RunData]) -> str:
    first, last = (pick(run.record.created for run in runs) for pick in (min, max))
    total = sum(run.result.timing.total_s or 0.0 for run in runs)
    took = f"; ran for {format_number(total)} s" if total and len(runs) == 1 else ""
    return started(first) + (f" to {started(last)}" if started(last) != started(first) else "") + took
