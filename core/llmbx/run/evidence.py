"""Gather what the checks read about a run: its log, its figures, its specification and what the ranks saw."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..entry.seen import FILE as SEEN
from ..launchers.nodes import read_nodes
from ..measure.window import log_interval
from ..model import Arrival, Evidence, Figures, Prints, Step
from ..record import arrivals

if TYPE_CHECKING:
    from ..record.folder import Run
    from .collector import Log


def gather(
    run: Run | None,
    log: Log,
    prints: Prints | None,
    figures: Figures | None = None,
    steps: Sequence[Step] | None = None,
    **facts: Any,
) -> Evidence:
    """Return the evidence about a log. `run` is the run of llmbx that wrote it, if any.

    `steps` replaces the log's own. `facts` are members of `Evidence` that neither the log nor the run's folder has.
    """
    measured = tuple(log.steps if steps is None else steps)
    return Evidence(
        steps=measured,
        interval=log_interval([step.number for step in measured]),
        events=tuple(log.events),
        earlier=tuple(log.earlier),
        before=tuple(event for event, later in zip(log.events, log.later, strict=False) if later >= len(log.steps)),
        after=tuple(log.after),
        conflicts=tuple(log.conflicts),
        damage=log.damage,
        arrivals=_arrivals(run) if run else (),
        spec=run.record.spec if run else None,
        prints=prints,
        figures=figures,
        gpus=seen_gpus(run) if run else None,
        out_of_order=log.out_of_order,
        nodes=read_nodes(run.path) if run else (),
        **facts,
    )


def _arrivals(run: Run) -> tuple[Arrival, ...]:
    return tuple(Arrival(number=number, at=at, width=width) for number, at, width in arrivals.of(run))


def seen_gpus(run: Run) -> tuple[str, ...] | None:
    """The product names of the GPUs that the first rank saw; None if it recorded nothing."""
    try:
        gpus = json.loads(run.files.read(SEEN))["gpus"]
        return tuple(str(gpu["name"]) for gpu in gpus if gpu.get("name"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
