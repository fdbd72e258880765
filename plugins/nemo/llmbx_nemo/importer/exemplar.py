"""Compare the rows of an exemplar-performance checkout (dgxc-benchmarking before) with what the catalog can run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from llmbx.api import LlmbxError, Value
from llmbx.api.verbs import Config, Request, load_plugins, resolve

from .yaml_subset import read_yaml

SUITE = "exemplar.yaml"


class Cell(Value, frozen=True):
    """A row of a metadata.yaml, or of the certification (`suite`)."""

    workload: str
    size: str
    dtype: str
    gpu_type: str
    gpus: int
    image: str | None = None


def is_checkout(source: Path) -> bool:
    """Whether this is a checkout of exemplar-performance."""
    return (source / SUITE).is_file()


def cells(source: Path) -> Iterator[Cell]:
    """Yield the pre-training rows of all recipes on Megatron-Bridge."""
    for path in sorted(source.rglob("metadata.yaml")):
        data = read_yaml(path.read_text(encoding="utf-8"), str(path))
        general = data.get("general", {})
        if (general.get("workload_type"), general.get("framework")) == ("pretrain", "megatron_bridge"):
            image = next((str(name) for name in data.get("container", {}).get("images", ())), None)
            for gpu_type, table in data["run"]["gpu_configs"].items():
                for model in table["model_configs"]:
                    yield from _of_model(str(general["workload"]), str(gpu_type), model, image)


def _of_model(workload: str, gpu_type: str, model: dict[str, Any], image: str | None) -> Iterator[Cell]:
    """Yield the rows of one size: its dtypes are a name, a list, or a map to GPUs or a table with them."""
    dtypes = model["dtypes"]
    if isinstance(dtypes, str):
        dtypes = [dtypes]
    scales = dtypes if isinstance(dtypes, dict) else dict.fromkeys(dtypes, model.get("scales", ()))
    for dtype, counts in scales.items():
        for gpus in counts.get("scales", ()) if isinstance(counts, dict) else counts:
            size = str(model["model_size"])
            yield Cell(workload=workload, size=size, dtype=str(dtype), gpu_type=gpu_type, gpus=int(gpus), image=image)


def suite(source: Path) -> Iterator[Cell]:
    """Yield the cells of the certification."""
    data = read_yaml((source / SUITE).read_text(encoding="utf-8"), SUITE)
    for gpu_type, entries in data["workloads"].items():
        for entry in entries:
            ((name, table),) = entry.items()
            workload, _, size = name.removeprefix("pretrain_").rpartition("_")
            for dtype in table["dtypes"]:
                yield Cell(
                    workload=workload, size=size, dtype=dtype, gpu_type=gpu_type, gpus=int(data["config"]["scale"])
                )


def compare(source: Path) -> bool:
    """Print the rows that the catalog cannot run, and counts of the others. Returns whether there are such rows."""
    lacking = 0
    for title, rows in (("rows", list(cells(source))), ("cells of the certification", list(suite(source)))):
        answers = [_answer_of_fp8(row) if row.dtype == "fp8" else _answer(row) for row in rows]
        for row, answer in zip(rows, answers, strict=True):
            if answer not in ("exact", "scaled"):
                lacking += 1
                click.echo(f"{row.workload} {row.size}/{row.dtype}/{row.gpu_type}/{row.gpus}: {answer}")
        exact, scaled = answers.count("exact"), answers.count("scaled")
        click.echo(f"{len(rows)} {title}: {exact} as published, {scaled} scaled or borrowed", err=True)
    return bool(lacking)


def _answer_of_fp8(row: Cell) -> str:
    """Return how the catalog has a row whose launch.sh decides between FP8 per tensor and MXFP8."""
    first = _answer(row)
    return first if first in ("exact", "scaled") else _answer(row.replace(dtype="mxfp8"))


def _answer(row: Cell) -> str:
    """Return how the catalog has a row, or why it does not."""
    request = Request(
        workload=row.workload, size=row.size, dtype=row.dtype, gpu_type=row.gpu_type, gpus=row.gpus, launcher="slurm"
    )
    try:
        spec = resolve(request, load_plugins(), Config(), {}, {}, "/install")
    except LlmbxError as error:
        return str(error).splitlines()[0]
    wrong = next((finding.problem for finding in spec.findings if not finding.warning), "")
    return wrong or ("scaled" if spec.derived else "exact")
