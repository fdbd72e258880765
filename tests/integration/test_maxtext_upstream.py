"""MaxText's final configurations against upstream's: the rows on GPUs, and a run that was changed on the way.

`llmbx_maxtext/upstream` has the configurations of upstream's launches, executed (benchmarks/maxtext_upstream.py).
MaxText of 2024-12 is no package: llmbx's arguments and the values of base.yml are compared. MaxText 0.2.5 is executed
here.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmbx.model import RunSpec
from llmbx.run.configuration import read_final
from llmbx.testing import resolve_spec
from llmbx_maxtext.configuration import expected, phases, program
from llmbx_maxtext.releases import release_of
from llmbx_maxtext.upstream import upstream

from .conftest import files_of
from .test_maxtext_entry import maxtext_python  # noqa: F401

Llmbx = Callable[..., subprocess.CompletedProcess[str]]

RECIPES = {
    ("llama2", "pgle-25.01", "2024.12"): "MaxText of 2024-12 (8e55ab1)",
    ("maxtext-llama3.1", "a3ultra", "2024.12"): "MaxText of 2025-01 (3889010)",
    ("maxtext-llama3.1", "a3ultra-405b", "2024.12"): "MaxText of 2025-01 (3889010)",
    ("maxtext-llama3.1", "a4", "2024.12"): "MaxText of 2025-03 (edfe9a5)",
    ("llama2", "a3", "0.2"): "MaxText 0.2.5",
    ("llama2", "gpu-models", "0.2"): "MaxText 0.2.5",
    ("llama2", "jax-toolbox", "0.2"): "MaxText 0.2.5",
    ("maxtext-gpt-oss", "gpu-models", "0.2"): "MaxText 0.2.5",
    ("maxtext-llama3.1", "a3", "0.2"): "MaxText 0.2.5",
    ("maxtext-llama3.1", "gpu-models", "0.2"): "MaxText 0.2.5",
    ("mixtral", "gpu-models", "0.2"): "MaxText 0.2.5",
    ("maxtext-llama3.1", "a3ultra", "0.2"): "MaxText 0.2.5",
    ("maxtext-llama3.1", "a3ultra-405b", "0.2"): "MaxText 0.2.5",
    ("maxtext-llama3.1", "a4", "0.2"): "MaxText 0.2.5",
}
"""Workload, recipe and release, and the version whose configurations these are."""

Case = tuple[tuple[str, str, str], str]


def cases() -> Iterator[Case]:
    """Every configuration, also of the GPU types that share one."""
    for recipe in RECIPES:
        content = upstream(*recipe)
        assert content
        for name in content.configurations:
            size, dtype, gpu_type, gpus = name.split("/")
            same = [other for other, its in content.gpu_types.items() if its == gpu_type and dtype == "bf16"]
            yield from ((recipe, f"{size}/{dtype}/{kind}/{gpus}") for kind in (gpu_type, *same))


def spec_of(case: Case) -> RunSpec:
    (workload, recipe, release), name = case
    size, dtype, gpu_type, gpus = name.split("/")
    return resolve_spec(
        workload, plugin="maxtext", size=size, dtype=dtype, gpu_type=gpu_type, gpus=int(gpus), recipe=recipe,
        launcher="slurm", settings={"maxtext": release},
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(maxtext_python: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], dict[str, Any]]:  # noqa: F811
    """`built(case)`: the configuration that llmbx's arguments make. MaxText is started once for all of them."""
    folder = tmp_path_factory.mktemp("built")

    @functools.cache
    def build() -> dict[Case, Path]:
        here = [case for case in cases() if case[0][2] == "0.2"]
        places = {case: folder / "-".join((*case[0][:2], case[1].replace("/", "-"))) for case in here}
        for case, place in places.items():
            made = program(spec_of(case))
            for name, content in made.files.items():
                file = (place if name == "spec.json" else folder) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        made = program(spec_of(here[0]))
        done = subprocess.run(
            [maxtext_python, *made.argv, *(str(place / "spec.json") for place in places.values())],
            cwd=folder, env={**os.environ, **made.env}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return places

    def final(case: Case) -> dict[str, Any]:
        if case[0][2] != "0.2":
            merged: dict[str, Any] = json.loads(program(spec_of(case)).files["configs/final.json"])["final"]
            return merged
        found = read_final(build()[case])
        assert found is not None and found.versions["maxtext"] == "0.2.5"
        return found.final

    return final


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: "-".join((*case[0], case[1])))
def test_the_configuration_is_upstreams(
    case: Case, built: Callable[[Case], dict[str, Any]], record_property: Callable[[str, object], None]
) -> None:
    (workload, recipe, release), name = case
    final, asked = built(case), expected(spec_of(case), None)
    assert [each.row() for each in asked.differences(final) if each.reason is None] == []
    assert asked.upstream is not None
    compared = final.keys() & asked.upstream.keys()
    if release != "0.2":
        compared &= set_by_either(case, asked.upstream)
    assert len(compared) > (800 if release == "0.2" else 25)
    record_property("proves", {
        "claim": "equals", "workload": workload, "recipe": recipe, "row": name, "fields": len(compared),
        "version": RECIPES[case[0]],
    })  # fmt: skip


def set_by_either(case: Case, theirs: dict[str, Any]) -> set[str]:
    """Keys that llmbx's arguments or upstream's launch set: the others are those of base.yml on both sides."""
    spec = spec_of(case)
    content = upstream(*case[0])
    assert content
    base = content.base_of(spec.size)
    assert base
    ours = {
        f"{begin}{word.partition('=')[0]}" for begin, words in phases(spec, release_of(spec)).items() for word in words
    }
    return ours | {key for key in theirs if theirs[key] != base.get(key.removeprefix("collect."))}


def test_a_workload_alone_compares_every_published_row_whose_upstream_is_known(llmbx: Llmbx) -> None:
    done = llmbx("catalog", "diff", "llama2", "--recipe", "pgle-25.01", "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    recipe = ("llama2", "pgle-25.01", "2024.12")
    known = {name for case, name in cases() if case == recipe}
    assert {f"{row['size']}/{row['dtype']}/{row['gpu_type']}/{row['gpus']}" for row in rows} == known
    assert all(row["compared"] > 450 and row["differ"] == [] for row in rows)
    assert "0 differ; upstream's are not known for pgle-25.01 (6)" in done.stderr


BEHIND = """
import os, runpy, sys
original = runpy.run_module
def changed(*arguments, **named):
    sys.argv += os.environ["BEHIND"].split()
    return original(*arguments, **named)
runpy.run_module = changed
"""
CHANGES = {
    "remat_policy": "minimal",
    "attention": "autoselected",
    "quantization": "int8",
    "per_device_batch_size": 1,
    "ici_fsdp_parallelism": 2,
    "ici_data_parallelism": 2,
}


@pytest.mark.usefixtures("maxtext_python")
def test_a_run_that_was_changed_behind_llmbxs_back_is_found_out(
    llmbx: Llmbx, shared_install: Path, tmp_path: Path, read_result: Callable[[Path], dict[str, Any]]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(BEHIND)
    changes = " ".join(f"{key}={value}" for key, value in CHANGES.items())
    done = llmbx(
        "run", "llama2", "--size", "mini", "--gpus", "4", "--steps", "5", "--set", "layers=2",
        env={"PYTHONPATH": str(tmp_path), "BEHIND": changes}, install=shared_install,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    folder = files_of(done.stdout)
    result = read_result(folder)
    assert (result["status"], result["data_valid"]) == ("failed", False)
    compared = llmbx("catalog", "diff", "--run", result["run_id"], "--format", "json", install=shared_install)
    assert compared.returncode == 1, compared.stderr
    assert {row["key"]: row["final"] for row in json.loads(compared.stdout)["differences"]} == CHANGES
