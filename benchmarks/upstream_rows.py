"""Write `upstream/WORKLOAD-bridge-0.6.json` anew: upstream's final configuration of each row, by executing its program.

    python benchmarks/upstream_rows.py BRIDGE PYTHON [MLPERF]

BRIDGE is a checkout of Megatron-Bridge v0.6.0 (its `scripts`), PYTHON that of the environment megatron-bridge-0.6-cpu,
whose rows are written. MLPERF is a checkout of 68e036ff0161 (branch mollys/mlperf-llama8b-r0.6.0), which has MLPerf's
Llama 3.1 8B. Takes about two minutes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
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
from llmbx_nemo.importer.tree import Tree, find_tree, functions

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
MLPERF_ARGUMENTS = ["--max_steps", "50"]
"""Its function trains on; launch.sh of exemplar-performance passes the steps."""
MLPERF_SOURCE = (
    f"Megatron-Bridge 68e036ff0161, {EXECUTED.format('it')}; its perf_recipes/llama/gb200/llama31.py does not import "
    "CommOverlapConfig, which was added"
)
MLPERF_MODULE = "src/megatron/bridge/perf_recipes/llama/gb200/llama31.py"
LACKING = "from megatron.bridge.training.comm_overlap import CommOverlapConfig\n"
FIRST_IMPORT = "from megatron.bridge.perf_recipes.environment import COMMON_PERF_ENV_VARS\n"

Flat = Mapping[str, Any]


def mended(checkout: Path, folder: Path) -> Path:
    """Copy the tree of MLPerf's recipe, with the import that it lacks, and return the copy."""
    shutil.copytree(checkout / "src" / "megatron", folder / "src" / "megatron")
    module = folder / MLPERF_MODULE
    text = module.read_text(encoding="utf-8")
    assert FIRST_IMPORT in text and LACKING not in text, module
    module.write_text(text.replace(FIRST_IMPORT, FIRST_IMPORT + LACKING), encoding="utf-8")
    return folder


def rows_of(tree: Tree, names: Names) -> Iterator[dict[str, Any]]:
    """Yield the rows of the recipe, as the program's arguments."""
    called = functions(tree)
    models = {tuple(target): model for model, target in names.models.items()}
    families = {function.model: function.module.split(".")[3] for function in called}
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
            }


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


def write(values: Mapping[str, Flat], source: str) -> None:
    """Write the file of each workload."""
    for workload in dict.fromkeys(name.partition(":")[0] for name in values):
        of_workload = {name.partition(":")[2]: flat for name, flat in values.items() if name.startswith(f"{workload}:")}
        text = json.dumps(file_of(of_workload, source), indent=0, sort_keys=True)
        (UPSTREAM / f"{workload}-bridge-0.6.json").write_text(f"{text}\n", encoding="utf-8")
        print(workload, len(of_workload))


def main() -> None:
    checkout, python = Path(sys.argv[1]), sys.argv[2]
    names = shipped_names()
    write(execute(checkout, python, list(rows_of(find_tree(Path(python).parents[1]), names))), SOURCE)
    for mlperf in map(Path, sys.argv[3:]):
        with tempfile.TemporaryDirectory() as folder:
            tree = mended(mlperf, Path(folder))
            rows = [
                {**row, "arguments": MLPERF_ARGUMENTS}
                for row in rows_of(find_tree(tree), names.replace(models=MLPERF_MODELS))
            ]
            write(execute(mlperf, python, rows, env=path_of(tree)), MLPERF_SOURCE)


if __name__ == "__main__":
    main()
