"""Write `upstream/WORKLOAD-bridge-0.6.json` anew: upstream's final configuration of each row, by executing its program.

    python benchmarks/upstream_rows.py BRIDGE PYTHON [TREE]

BRIDGE is a checkout of Megatron-Bridge v0.6.0 (its `scripts`), PYTHON that of the environment megatron-bridge-0.6-cpu;
TREE is the Megatron-Bridge whose rows are wanted (default: that of PYTHON). Takes about a minute.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llmbx.api import GpuType
from llmbx_nemo.hub import cache_files, hub_models
from llmbx_nemo.importer.names import shipped_names
from llmbx_nemo.importer.rows import workloads
from llmbx_nemo.importer.tree import Tree, find_tree, functions

UPSTREAM = Path(__file__).parents[1] / "plugins" / "nemo" / "llmbx_nemo" / "upstream"
PROGRAM = Path(__file__).with_name("upstream_final.py")
DTYPES = {"mxfp8": "fp8_mx", "fp8": "fp8_cs", "nvfp4": "nvfp4", "bf16": "bf16"}
BUFFERS = re.compile(r"(comm_overlap|comm_overlap\.user_comm_overlap_cfg|model)\.tp_comm_overlap_cfg\.")
SOURCE = (
    "Megatron-Bridge v0.6.0, scripts/performance (run_script.py, utils/executors.py), executed on Megatron-Bridge "
    "0.6.2 and Megatron-Core 0.19.2 without a GPU, with the models' config.json"
)

Flat = Mapping[str, Any]


def rows_of(tree: Tree) -> Iterator[dict[str, Any]]:
    """Yield the rows of the recipe, as the program's arguments."""
    names, called = shipped_names(), functions(tree)
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


def execute(scripts: Path, python: str, rows: list[dict[str, Any]], strict: bool = True) -> dict[str, Flat]:
    """Return all values of each row; if it is not `strict`, without those that upstream refuses."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, content in cache_files(list(hub_models())).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        (root / "rows.json").write_text(json.dumps(rows))
        argv = [python, PROGRAM, scripts.resolve(), "hub", "rows.json", "final.json"]
        done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr[-3000:])
        result: dict[str, Flat] = json.loads((root / "final.json").read_text())
    lacking = [row["name"] for row in rows if row["name"] not in result]
    if lacking and strict:
        sys.exit(f"upstream refuses {', '.join(lacking)}:\n{done.stderr[-2000:]}")
    return result


def file_of(values: Mapping[str, Flat]) -> dict[str, Any]:
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
    file = {"common": common, "configurations": configurations, "source": SOURCE}
    return {**file, "shared": shared} if shared else file


def main() -> None:
    scripts, python = Path(sys.argv[1]) / "scripts" / "performance", sys.argv[2]
    tree = find_tree(Path(sys.argv[3]) if len(sys.argv) > 3 else Path(python).parents[1])
    values = execute(scripts, python, list(rows_of(tree)))
    for workload in dict.fromkeys(name.partition(":")[0] for name in values):
        of_workload = {name.partition(":")[2]: flat for name, flat in values.items() if name.startswith(f"{workload}:")}
        text = json.dumps(file_of(of_workload), indent=0, sort_keys=True)
        (UPSTREAM / f"{workload}-bridge-{tree.release}.json").write_text(f"{text}\n", encoding="utf-8")
        print(workload, len(of_workload))


if __name__ == "__main__":
    main()
