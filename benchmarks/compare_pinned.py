"""Compare upstream's jobs of exemplar-performance 26.08 as it pins them with those of Megatron-Bridge v0.6.0.

    python benchmarks/compare_pinned.py BRIDGE PYTHON B50DA4C FCBB603 06F25C2 > tests/plugins/nemo/exemplar_pinned.csv

BRIDGE and PYTHON as in upstream_rows.py, the others checkouts of the commits that the metadata.yaml files name:
b50da4c7404c (0.5.2), fcbb6031103d (0.5.0, for gpt-oss 20b) and 06f25c227ef9 (0.4.2, for Nemotron-H, and Kimi K2 on
B200). Each row of the list is executed by the program of its commit and by that of v0.6.0, at its number of GPUs, with
the layout that launch.sh passes, both on Megatron-Core 0.19.2. The table has how many values both programs set, and
which of them differ. MLPerf's Llama 3.1 has its commit as recipe (compare_exemplar.py). Takes five minutes.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from compare_exemplar import row_of, specs
from upstream_rows import MLPERF, execute, families_of, path_of

from llmbx.api import RunSpec
from llmbx_nemo.importer.names import shipped_names
from llmbx_nemo.importer.tree import find_tree, functions
from llmbx_nemo.upstream import OTHER

COLUMNS = ("workload", "size", "dtype", "gpu_type", "gpus", "pinned", "values", "differing")
VERSIONS = ("0.5.2", "0.5.0", "0.4.2")
VARIANTS = {8: "v1", 64: "v2", 72: "v2", 512: "v3"}
"""The variant of gpt-oss 20b by number of GPUs; that of all others is v2, which falls back to v1."""


def pinned_version(spec: RunSpec) -> str:
    """Return the version of Megatron-Bridge that metadata.yaml pins for a run."""
    if spec.workload == "nemotron-h" or (spec.workload, spec.gpu_type) == ("kimi-k2", "b200"):
        return "0.4.2"
    return "0.5.0" if (spec.workload, spec.size) == ("gpt-oss", "20b") else "0.5.2"


def by_launch(spec: RunSpec) -> tuple[str, ...]:
    """Return what launch.sh passes for every number of GPUs; the recipes of v0.6.0 have the same."""
    if spec.gpu_type not in ("b200", "b300"):
        return ()
    passed = {("gpt-oss", "120b"): ("-ep", "8"), ("llama3.1", "405b"): ("-gb", str(spec.gpus * 6))}
    return passed.get((spec.workload, spec.size), ())


def variant(spec: RunSpec) -> tuple[str, str]:
    """Return the variant of the configuration that launch.sh chooses."""
    return "--config_variant", VARIANTS[spec.gpus] if spec.size == "20b" else "v2"


def executed(scripts: Path, python: str, runs: Mapping[str, RunSpec], tree: Path | None = None) -> dict[str, Any]:
    """Return all values of runs by a checkout's program, with the recipes of `tree` or of the installed package."""
    models = {tuple(target): model for model, target in shipped_names().models.items()}
    families = families_of(functions(find_tree(tree or Path(python).parents[1])))
    rows = [row_of(name, spec, models, families) for name, spec in runs.items()]
    for row, spec in zip(rows, runs.values(), strict=True):
        row["arguments"] = [*row["arguments"], *by_launch(spec), *(variant(spec) if tree else ())]
    return dict(execute(scripts, python, rows, strict=False, env=path_of(tree) if tree else {}))


def differing(newer: Mapping[str, Any], pinned: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return how many values both programs set, and the keys of those that differ."""
    common = [key for key in newer.keys() & pinned.keys() if not key.startswith(OTHER)]
    return len(common), sorted(key for key in common if newer[key] != pinned[key])


def lines(checkout: Path, python: str, trees: Mapping[str, Path]) -> Iterator[tuple[Any, ...]]:
    """Yield the lines of the table; `trees` are the pinned checkouts by version."""
    runs = {name: spec for name, spec in specs() if spec.workload != MLPERF}
    newer, pinned = executed(checkout, python, runs), dict[str, Any]()
    for version, tree in trees.items():
        members = {name: spec for name, spec in runs.items() if pinned_version(spec) == version}
        pinned |= executed(tree, python, members, tree)
    for name, spec in runs.items():
        count, keys = differing(newer[name], pinned[name])
        key = (spec.workload, spec.size, spec.dtype, spec.gpu_type, spec.gpus, pinned_version(spec))
        yield (*key, count, " ".join(keys))


def main() -> None:
    checkout, python, trees = Path(sys.argv[1]), sys.argv[2], map(Path, sys.argv[3:])
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(lines(checkout, python, dict(zip(VERSIONS, trees, strict=True))))


if __name__ == "__main__":
    main()
