"""Scale a row of the catalog to a number of GPUs that its recipe lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..model import Finding, Recipe, Row, Value
from ..phrases import either
from .scales import evaluate, scales


class Scaled(Value, frozen=True):
    """A row for a number of GPUs that its recipe lacks; `gpus` is the number that it was scaled from."""

    recipe: Recipe
    row: Row
    gpus: int
    finding: Finding


def scaled(rows: Sequence[tuple[Recipe, Row]], to: int, what: str) -> Scaled:
    """The nearest of the rows for `to` GPUs: layout and samples of a data-parallel rank are kept.

    A layout that divides the GPUs, and a whole batch, come before a near number of GPUs. `what` names the rows in the
    finding, which is an error if none can be scaled.
    """
    pairs = [(recipe, row, count) for recipe, row in rows for count in scales(row.gpus)]
    recipe, row, count = min(pairs, key=lambda pair: _distance(pair[1], pair[2], to))
    gbs, unit = evaluate(row.gbs, count), _unit(row, count)
    if to % unit == 0:
        finding = scaled_finding(count, to)
    else:
        nearest = [number for number in (to // unit * unit, (to // unit + 1) * unit) if number]
        problem = f"{what} has no configuration for {to} GPUs, and that for {count} GPUs does not scale to them"
        finding = Finding(rule="gpus", problem=problem, fix=f"use --gpus {either(nearest)}")
    fsdp = evaluate(row.fsdp, count) if isinstance(row.fsdp, str) and to % unit else row.fsdp
    row = row.replace(gbs=Row.scaled_batch(gbs, count, to) or max(1, gbs * to // count), fsdp=fsdp)
    return Scaled(recipe=recipe, row=row, gpus=count, finding=finding)


def scaled_finding(count: int, to: int) -> Finding:
    """What is said about a row for `to` GPUs that was scaled from `count`."""
    return Finding(
        rule="scaled",
        problem=f"scaled from {count} to {to} GPUs, with the batch of a data-parallel rank; no published figure",
        fix="compare it with runs that are scaled in the same way",
        warning=True,
    )


def _unit(row: Row, count: int) -> int:
    """The numbers of GPUs that a row scales to are the multiples of this one."""
    whole_batch = count // math.gcd(evaluate(row.gbs, count), count)
    ranks = row.tp * row.pp * row.cp
    experts = row.pp * (row.ep or 1) * (row.etp or row.tp) if row.ep else 1
    shards = int(row.fsdp.partition("/")[2] or 1) if isinstance(row.fsdp, str) else int(row.fsdp) * ranks or 1
    return math.lcm(whole_batch, ranks, experts if count % experts == 0 else 1, shards if count % shards == 0 else 1)


def _distance(row: Row, count: int, to: int) -> tuple[bool, float]:
    return to % _unit(row, count) != 0, abs(math.log2(to / count))
