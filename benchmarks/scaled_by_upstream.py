"""Scale rows of the catalog by upstream's own functions, as the oracle of tests/plugins/nemo/test_scaled_rows.py.

    python benchmarks/scaled_by_upstream.py benchmark_parallelism.py > tests/plugins/nemo/scaled_by_upstream.csv

The file is scripts/common/benchmark_parallelism.py of Megatron-Bridge v0.6.0 (commit 51885cf132b2). A pair that it
refuses has no DP and no batch.
"""

from __future__ import annotations

import csv
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llmbx.api import Row
from llmbx.api.verbs import evaluate_scale, load_plugins, scales_of

RECIPES = ("bridge-0.6", "mbridge")
COLUMNS = ("workload", "recipe", "size", "dtype", "gpu_type", "row_gpus", "gpus", "dp", "gbs")


def upstream(path: str) -> Any:
    """Upstream's file as a module."""
    spec = importlib.util.spec_from_file_location("benchmark_parallelism", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def pairs() -> Iterator[tuple[tuple[str, ...], Row, int, int]]:
    """The first row of every recipe, size and GPU type, with numbers of GPUs that it does not have."""
    for workload in load_plugins().workloads:
        for recipe in (recipe for recipe in workload.recipes if workload.plugin == "nemo" and recipe.name in RECIPES):
            firsts = {(row.size, gpu_type): row for row in reversed(recipe.rows) for gpu_type in row.gpu_types}
            for (size, gpu_type), row in sorted(firsts.items()):
                own = scales_of(row.gpus)
                for gpus in sorted({own[0] // 2, own[0] * 3 // 2, own[0] * 3, own[0] + 4} - {0, *own}):
                    yield (workload.name, recipe.name, size, row.dtypes[0], gpu_type), row, own[0], gpus


def main() -> None:
    bridge = upstream(sys.argv[1])
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(COLUMNS)
    for names, row, own, gpus in pairs():
        layout = bridge.ParallelTopology(
            tensor_parallel=row.tp, pipeline_parallel=row.pp, context_parallel=row.cp, expert_parallel=row.ep or 1,
            expert_tensor_parallel=row.etp,
        )  # fmt: skip
        try:
            first = bridge.data_parallel_size(num_gpus=own, topology=layout)
            dp = bridge.data_parallel_size(num_gpus=gpus, topology=layout)
            gbs = bridge.weak_scaled_global_batch_size(
                base_gbs=evaluate_scale(row.gbs, own), base_data_parallel=first, data_parallel=dp
            )
        except ValueError:
            dp = gbs = None
        table.writerow((*names, own, gpus, dp, gbs))


if __name__ == "__main__":
    assert Path(sys.argv[1]).is_file()
    main()
