"""Measure whether the intervals hold for figures that their factors were not made from.

Usage: python benchmarks/predict/coverage.py [FOLDER]

The factors that ship are quantiles of the errors of figures that are left out in five ways, so over all ways together
90 % of those figures lie within their intervals by construction. Here each group that is left out has intervals whose
factors come from the errors of the other groups' figures alone. FOLDER has vTrain's figures (see errors.py), by which
the factor of layouts that nobody chose is made: each of its models is judged by the factor from its other models.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

import vtrain
from folds import FOLDS, Error, Used, factor, groups, left_out_errors

from llmbx_prediction.atlas import table
from llmbx_prediction.atlas.row import Row
from llmbx_prediction.regression.shipped import OWN_LAYOUT, Calibration, calibration, usable

SUBSETS: dict[str, Callable[[Row], bool]] = {
    "Megatron-Bridge": lambda row: "performance summary" in row.source and row.task == "pretrain",
    "all": lambda row: True,
}


def by_factors_of_others(left_out: Sequence[Error], everything: Sequence[Error], keys: Sequence[Hashable]) -> set[int]:
    """The figures within intervals whose factors come from the errors of all figures of other groups."""
    groups_of: dict[Hashable, list[Error]] = defaultdict(list)
    for error in left_out:
        groups_of[keys[error.index]].append(error)
    inside = set()
    for group, members in groups_of.items():
        others: dict[str, list[float]] = defaultdict(list)
        for error in everything:
            if keys[error.index] != group:
                others[error.known].append(error.size)
        inside |= {error.index for error in members if error.size <= factor(others[error.known])}
    return inside


def line(left_out: str, title: str, groups: int, of_all: Sequence[bool], of_others: Sequence[bool]) -> None:
    """Print the shares of figures within their intervals."""
    shares = " ".join(f"{100 * statistics.mean(inside):7.1f}" for inside in (of_all, of_others))
    print(f"{left_out:16} {title:16} {len(of_all):7} {groups:7} {shares}", flush=True)


def published(used: Used, shipped: Calibration) -> None:
    """The coverage of the shipped table's figures, for the newest source and for all."""
    keys = {name: groups(used, name) for name in FOLDS}
    found = {name: left_out_errors(used, keys[name], shipped.coefficients, shipped.scales) for name in FOLDS}
    everything = [error for each in found.values() for error in each]
    for name, left_out in found.items():
        of_others = by_factors_of_others(left_out, everything, keys[name])
        of_all = {error.index for error in left_out if error.size <= shipped.quantiles[error.known]}
        for title, subset in SUBSETS.items():
            members = [index for index, (row, *_) in enumerate(used) if subset(row)]
            number = len({keys[name][index] for index in members})
            line(name, title, number, *([index in inside for index in members] for inside in (of_all, of_others)))


def own_layouts(used: Used, shipped: Calibration, folder: Path) -> None:
    """The coverage of vTrain's figures, each of its models left out."""
    tables = [vtrain.unseen_models(used, data, shipped.coefficients, shipped.scales) for data in vtrain.tables(folder)]
    for title, errors in zip(("vTrain, nodes", "vTrain, one node"), tables, strict=True):
        of_all = [size <= shipped.quantiles[OWN_LAYOUT] for _, size in errors]
        of_others = [size <= factor([other for table in tables for name, other in table if name != model])
                     for model, size in errors]  # fmt: skip
        line("model", title, len({model for model, _ in errors}), of_all, of_others)


def main(folder: Path | None) -> None:
    """Print the coverage along each way to leave figures out, by both kinds of factors."""
    used, shipped = usable(table.shipped()), calibration()
    print("90 % intervals: share of figures within them, in percent, by the factors that ship and by those of others")
    print(f"{'left out':16} {'figures of':16} {'figures':>7} {'groups':>7} {'ship':>7} {'others':>7}")
    published(used, shipped)
    if folder is not None:
        own_layouts(used, shipped, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
