"""Compare every row of exemplar-performance 26.08, at its number of GPUs, with upstream's executed program.

    python benchmarks/compare_exemplar.py BRIDGE PYTHON MLPERF > tests/plugins/nemo/exemplar_compared.csv

BRIDGE, PYTHON and MLPERF as in upstream_rows.py. For a row that upstream has no function for, its program scales
another one (`set_post_overrides`), with what launch.sh passes for some rows. The table says how many values were
compared, how many differ with a reason (`published/*.toml`), and which others differ. Takes five minutes.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from upstream_rows import DTYPES, MLPERF, MLPERF_MODELS, execute, families_of, of_mlperf, path_of

from llmbx.api import ExpectedConfiguration, RunSpec
from llmbx.api.verbs import Config, Request, load_plugins, read_final, resolve
from llmbx_nemo.importer.names import shipped_names
from llmbx_nemo.importer.tree import find_tree, functions
from llmbx_nemo.published import published
from llmbx_nemo.upstream import ENV, OTHER, PROGRAM, program_files
from llmbx_site.final_configuration import launch_values

ROWS = Path(__file__).parents[1] / "tests" / "plugins" / "nemo" / "exemplar.csv"
RECIPES = {"llama3.1_mlperf": "bridge-0.5"}
"""Recipes of another release."""

BY_LAUNCH = ("launch.env.NCCL_IB_QPS_PER_CONNECTION",)
"""What exemplar-performance's launch.sh sets before it calls the program."""

OPTIONS = {
    **{name: (f"-{name}",) for name in ("tp", "pp", "vp", "ep")},
    "mbs": ("-mb",),
    "cuda_graphs": ("--cuda_graph_impl", "none"),
}
"""The program's options for what launch.sh changes; `cuda_graphs` is only switched off."""

COLUMNS = ("workload", "size", "dtype", "gpu_type", "gpus", "scaled_from", "values", "permitted", "differing")


def specs() -> Iterator[tuple[str, RunSpec]]:
    """Yield the runs of the list, with a name for each."""
    plugins = load_plugins()
    with ROWS.open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            for gpus in map(int, row["gpus"].split()):
                request = Request(
                    workload=row["workload"], size=row["size"], dtype=row["here"], gpu_type=row["gpu_type"], gpus=gpus,
                    launcher="slurm", recipe=RECIPES.get(row["workload"], "bridge-0.6"),
                )  # fmt: skip
                spec = resolve(request, plugins, Config(), {}, {}, "/install")
                yield f"{spec.workload}:{spec.size}/{spec.dtype}/{spec.gpu_type}/{gpus}", spec


def row_of(name: str, spec: RunSpec, models: Mapping[Any, str], families: Mapping[str, str]) -> dict[str, Any]:
    """Return the program's arguments for a run."""
    model = models[spec.workload, spec.size]
    more = of_mlperf(spec.dtype, spec.gpus) if spec.workload == MLPERF else {}
    arguments = more.pop("arguments", [])
    for scale in shipped_names().scales:
        same = (scale.workload, scale.size, scale.gpu_type) == (spec.workload, spec.size, spec.gpu_type)
        if same and spec.dtype in scale.dtypes and spec.gpus in scale.gpus:
            for key, value in scale.values.items():
                arguments += [*OPTIONS[key]] if value is False else [*OPTIONS[key], str(value)]
            for override in scale.settings.get("overrides", "").split():
                option, _, words = override.removeprefix("model.").partition("=")
                arguments += [f"--{option}", words.strip("[]")]
    return {
        "name": name, "model": model, "family": families[model], "gpu": spec.gpu_type, "gpus": spec.gpus,
        "dtype": DTYPES[spec.dtype], "gpus_per_node": spec.gpus_per_node, "arguments": arguments, **more,
    }  # fmt: skip


def built(runs: Mapping[str, RunSpec], python: str, env: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    """Return llmbx's final configuration of each run, with its launch."""
    plugins, result = load_plugins(), {}
    by_workload: dict[str, list[str]] = {}
    for name, spec in runs.items():
        by_workload.setdefault(spec.workload, []).append(name)
    for members in by_workload.values():
        with tempfile.TemporaryDirectory() as folder:
            root, files = Path(folder), {name: program_files(runs[name]) for name in members}
            for path, content in (item for name in members for item in files[name].items()):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(content)
            places = {name: root / f"run-{number}" for number, name in enumerate(members)}
            for name, place in places.items():
                place.mkdir()
                (place / "spec.json").write_bytes(files[name]["spec.json"])
            argv = [python, f"code/{PROGRAM}", *(f"{place.name}/spec.json" for place in places.values())]
            subprocess.run(argv, cwd=root, env={**os.environ, **env, **ENV}, capture_output=True, check=False)
            for name, place in places.items():
                final = read_final(place)
                result[name] = {**final.final, **launch_values(runs[name], plugins)} if final else {}
    return result


def compared(
    checkout: Path, python: str, runs: Mapping[str, RunSpec], tree: Path | None = None
) -> Iterator[tuple[Any, ...]]:
    """Yield the table's lines for runs, with the recipes of a tree or of the installed package."""
    env = path_of(tree) if tree else {}
    models = {tuple(target): model for model, target in {**shipped_names().models, **MLPERF_MODELS}.items()}
    called = functions(find_tree(tree or Path(python).parents[1]))
    families = families_of(called)
    rows = [row_of(name, spec, models, families) for name, spec in runs.items()]
    theirs, ours = execute(checkout, python, rows, strict=False, env=env), built(runs, python, env)
    for name, spec in runs.items():
        yield line_of(spec, theirs.get(name), ours[name])


def line_of(spec: RunSpec, theirs: Mapping[str, Any] | None, ours: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the table's line for a run."""
    data = published(spec.workload, spec.recipe)
    expected = ExpectedConfiguration(
        upstream=dict(theirs) if theirs else None,
        other=(*OTHER, *BY_LAUNCH),
        permitted=data.permitted if data else (),
    )
    differences = expected.differences(dict(ours)) if ours and theirs else ()
    wrong = sorted(difference.key for difference in differences if difference.reason is None)
    outcome = " ".join(wrong) if theirs and ours else "refused by " + ("llmbx" if theirs else "upstream")
    values = len(expected.compared(dict(ours))) if theirs else 0
    key = (spec.workload, spec.size, spec.dtype, spec.gpu_type, spec.gpus, spec.scaled_from or "")
    return (*key, values, len(differences) - len(wrong), outcome)


def main() -> None:
    checkout, python, mlperf = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    runs = dict(specs())
    runs_of_mlperf = {name: spec for name, spec in runs.items() if spec.workload == MLPERF}
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(compared(checkout, python, {name: runs[name] for name in runs if name not in runs_of_mlperf}))
    table.writerows(compared(mlperf, python, runs_of_mlperf, mlperf))


if __name__ == "__main__":
    main()
