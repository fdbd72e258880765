"""Write `upstream/WORKLOAD-bridge-*.json` anew: upstream's final configuration of each row, by executing its program.

    python benchmarks/upstream_rows.py BRIDGE PYTHON [MLPERF]

BRIDGE is a checkout of Megatron-Bridge v0.6.0 (its `scripts`), PYTHON that of the environment megatron-bridge-0.6-cpu,
whose rows are written. MLPERF is a checkout of f21e0c891ec0 (branch llmb-r0.5.1), which exemplar-performance v26.08.00
takes for MLPerf's Llama 3.1 8B. Takes about two minutes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llmbx.api import GpuType
from llmbx_nemo.hub import cache_files, hub_models
from llmbx_nemo.importer.names import Names, shipped_names
from llmbx_nemo.importer.rows import workloads
from llmbx_nemo.importer.tree import Function, Tree, find_tree, functions
from llmbx_nemo.published import published

UPSTREAM = Path(__file__).parents[1] / "plugins" / "nemo" / "llmbx_nemo" / "upstream"
PROGRAM = Path(__file__).with_name("upstream_final.py")
DTYPES = {"mxfp8": "fp8_mx", "fp8": "fp8_cs", "nvfp4": "nvfp4", "bf16": "bf16"}
BUFFERS = re.compile(r"(comm_overlap|comm_overlap\.user_comm_overlap_cfg|model)\.tp_comm_overlap_cfg\.")
EXECUTED = (
    "scripts/performance (run_script.py, utils/executors.py), executed on {} and Megatron-Core 0.19.2 without a GPU, "
    "with the models' config.json"
)
SOURCE = f"Megatron-Bridge v0.6.0, {EXECUTED.format('Megatron-Bridge 0.6.2')}"
MLPERF = "mlperf-llama3.1"
MLPERF_MODELS = {"llama31_8b": (MLPERF, "8b")}
MLPERF_SOURCE = (
    f"Megatron-Bridge f21e0c891ec0, {EXECUTED.format('it')}, and the variables that launch.sh of exemplar-performance "
    "v26.08.00 passes"
)

Flat = Mapping[str, Any]


def rows_of(tree: Tree, names: Names) -> Iterator[dict[str, Any]]:
    """Yield the rows of the recipe, as the program's arguments."""
    called = functions(tree)
    models = {tuple(target): model for model, target in names.models.items()}
    families = families_of(called)
    for imported in workloads(called, names):
        for size, dtype, gpu_type, gpus in imported.configurations:
            model = models[imported.workload, size]
            yield {
                "name": f"{imported.workload}:{size}/{dtype}/{gpu_type}/{gpus}",
                "model": model,
                "family": families[model],
                "gpu": gpu_type,
                "gpus": gpus,
                "dtype": DTYPES[dtype],
                "gpus_per_node": GpuType.builtin()[gpu_type].gpus_per_node or 8,
                **(of_mlperf(dtype, gpus) if imported.workload == MLPERF else {}),
            }


def families_of(called: list[Function]) -> dict[str, str]:
    """Return the family of each model: the folder of its functions."""
    folders = ("megatron.bridge.perf_recipes.", "configs.")
    names = {function.model: function.module for function in called}
    return {
        model: module.removeprefix(folder).split(".")[0]
        for model, module in names.items()
        for folder in folders
        if module.startswith(folder)
    }


def of_mlperf(dtype: str, gpus: int) -> dict[str, Any]:
    """Return what launch.sh passes for MLPerf's model: the steps, the variant and variables."""
    data = published(MLPERF, "bridge-0.5")
    assert data
    arguments = ["--max_steps", "50", "--config_variant", data.functions["8b"].variants[str(gpus)]]
    exported = [large.env for large in shipped_names().large if large.workload == MLPERF and dtype in large.dtypes]
    return {"arguments": arguments, "environment": {name: value for env in exported for name, value in env.items()}}


def execute(
    checkout: Path,
    python: str,
    rows: list[dict[str, Any]],
    strict: bool = True,
    env: Mapping[str, str] = {},
) -> dict[str, Flat]:
    """Return all values of each row; if it is not `strict`, without those that upstream refuses."""
    scripts = checkout / "scripts" / "performance"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, content in cache_files(list(hub_models())).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        (root / "rows.json").write_text(json.dumps(rows))
        argv = [python, PROGRAM, scripts.resolve(), "hub", "rows.json", "final.json"]
        done = subprocess.run(argv, cwd=root, env={**os.environ, **env}, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr[-3000:])
        result: dict[str, Flat] = json.loads((root / "final.json").read_text())
    lacking = [row["name"] for row in rows if row["name"] not in result]
    if lacking and strict:
        sys.exit(f"upstream refuses {', '.join(lacking)}:\n{done.stderr[-2000:]}")
    return result


def path_of(tree: Path) -> dict[str, str]:
    """Return the environment in which a tree is imported before the installed package."""
    return {"PYTHONPATH": str((tree / "src").resolve())}


def file_of(values: Mapping[str, Flat], source: str) -> dict[str, Any]:
    """Return the contents of a workload's file: what all rows have, tuned buffers by number, and the rest."""
    first = next(iter(values.values()))
    common = {
        key: value
        for key, value in first.items()
        if all(key in flat and flat[key] == value for flat in values.values())
    }
    shared: dict[str, Flat] = {}
    configurations: dict[str, dict[str, Any]] = {}
    for name in sorted(values):
        own = {key: value for key, value in values[name].items() if key not in common}
        buffers = {key: own.pop(key) for key in list(own) if BUFFERS.match(key)}
        if buffers:
            number = next((key for key, known in shared.items() if known == buffers), f"buffers {len(shared) + 1}")
            shared[number] = buffers
            own["shared"] = [number]
        configurations[name] = own
    file = {"common": common, "configurations": configurations, "source": source}
    return {**file, "shared": shared} if shared else file


def write(values: Mapping[str, Flat], source: str, recipe: str = "bridge-0.6") -> None:
    """Write the file of each workload."""
    for workload in dict.fromkeys(name.partition(":")[0] for name in values):
        of_workload = {name.partition(":")[2]: flat for name, flat in values.items() if name.startswith(f"{workload}:")}
        text = json.dumps(file_of(of_workload, source), indent=0, sort_keys=True)
        (UPSTREAM / f"{workload}-{recipe}.json").write_text(f"{text}\n", encoding="utf-8")
        print(workload, len(of_workload))


def main() -> None:
    checkout, python = Path(sys.argv[1]), sys.argv[2]
    names = shipped_names()
    write(execute(checkout, python, list(rows_of(find_tree(Path(python).parents[1]), names))), SOURCE)
    for mlperf in map(Path, sys.argv[3:]):
        rows = list(rows_of(find_tree(mlperf), names.replace(models=MLPERF_MODELS)))
        write(execute(mlperf, python, rows, env=path_of(mlperf)), MLPERF_SOURCE, "bridge-0.5")


if __name__ == "__main__":
    main()
