"""The exit code of a run whose window is unstable: 5 for a benchmark at its full length, else 0 or as before."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Llmbx, Package

TOY = Path(__file__).parents[2] / "fixtures/toy/src"

CODE = """
import os

from llmbx.api import LogFormat, Reference, hookimpl
from llmbx_toy import plugin as toy
from llmbx_toy.plugin import build_command, check_spec, compute_flops, prepare_image

class Shaped(toy.ToyParser):
    def feed(self, line):
        for record in super().feed(line):
            if hasattr(record, "time_s"):
                factor = 2 if os.environ["SHAPE"] == "throttled" and record.number >= 15 else 1
                record = record.replace(time_s=0.01 * factor * (1 + 0.0001 * (record.number * 7 % 5)))
            yield record

@hookimpl
def parse_log(spec):
    return [LogFormat("shaped", "Shaped", lambda text: 0, Shaped)]

@hookimpl
def register_workloads():
    (line,) = toy.register_workloads()
    (recipe,) = line.recipes
    (row,) = recipe.rows
    full = row.replace(size="1b", dtypes=("bf16",), gpu_types=("h100",), gpus=("1",))
    facts = {"source": "test", "size": "1b", "dtype": "bf16", "gpu_type": "h100", "gpus": 1}
    return [line.replace(
        sizes={**line.sizes, "1b": line.sizes["mini"]}, recipes=(recipe.replace(rows=(row, full)),),
        references=(Reference(**facts, step_time_s=float(os.environ.get("PUBLISHED", "0.01"))),),
    )]
"""

WATCH = """
from llmbx import hookimpl
from llmbx.model import Profiler

@hookimpl
def register_profiler():
    return Profiler(disturbs="time")

@hookimpl
def wrap_command(spec, launch):
    return launch
"""

STAND_IN_FOR_NVIDIA_SMI = """#!/bin/sh
echo "NVIDIA H100 80GB HBM3, 550.54.15, 700.00, 1980, 2619, 1980, 700.00, 1980"
"""
"""This machine may have no GPU, and a benchmark of which nobody recorded a GPU is not comparable."""

BENCHMARK = ("--size", "1b", "--dtype", "bf16", "--gpu-type", "h100", "--gpus", "1")
MINI = ("--size", "mini", "--gpu-type", "cpu")

Run = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def run(package: Package, llmbx: Llmbx, site: Path, tmp_path: Path) -> Run:
    """`run("throttled", "--steps", "16")`: exit code, result and output of a run with step times of this shape."""
    package("odd", CODE)
    package("watch", WATCH)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(STAND_IN_FOR_NVIDIA_SMI)
    (tools / "nvidia-smi").chmod(0o755)

    def call(shape: str, *arguments: str, published: float = 0.01) -> tuple[int, dict[str, Any], str]:
        environ = {"PYTHONPATH": f"{site}:{TOY}", "LLMBX_PYTHON": sys.executable, "SHAPE": shape}
        environ["PATH"] = f"{tools}:{os.environ['PATH']}"
        done = llmbx(
            "run", "--plugin", "odd", "line", "--runtime", "host", "--launcher", "local", *arguments,
            PUBLISHED=str(published), **environ,
        )  # fmt: skip
        assert done.returncode in (0, 3, 5), done.stderr
        (file,) = (tmp_path / "install").glob("workloads/**/result.json")
        return done.returncode, json.loads(file.read_text()), done.stdout + done.stderr

    return call


def test_an_unstable_benchmark_has_no_verdict(run: Run) -> None:
    code, result, output = run("throttled", *BENCHMARK)
    assert (result["status"], result["data_valid"], result["comparable"]) == ("completed", True, True), output
    assert result["stability"]["verdict"] == "two-level" and "two levels" in result["stability"]["reason"]
    assert code == 5
    assert "stability        two-level: two levels of step time" in output and output.count("two levels") == 1


def test_an_unstable_benchmark_is_neither_slow_nor_fast_enough(run: Run) -> None:
    assert run("throttled", *BENCHMARK, published=0.001)[0] == 5


@pytest.mark.parametrize(("published", "code"), [(0.01, 0), (0.001, 3)])
def test_a_stable_benchmark_is_compared_with_the_reference(run: Run, published: float, code: int) -> None:
    found, result, output = run("flat", *BENCHMARK, published=published)
    assert result["comparable"] and result["stability"]["verdict"] == "stable", output
    assert found == code


@pytest.mark.parametrize("arguments", [MINI, (*BENCHMARK, "--max-steps", "19"), (*BENCHMARK, "--with", "watch")])
def test_other_runs_state_their_stability_and_exit_with_0(run: Run, arguments: tuple[str, ...]) -> None:
    code, result, output = run("throttled", *arguments)
    assert result["status"] == "completed" and result["stability"]["verdict"] == "two-level", output
    assert code == 0


@pytest.mark.parametrize(("shape", "verdict", "exit_code"), [("flat", "stable", 0), ("throttled", "two-level", 5)])
def test_a_benchmark_of_one_step_is_judged_by_its_steady_state(
    run: Run, shape: str, verdict: str, exit_code: int
) -> None:
    code, result, _ = run(shape, *BENCHMARK, "--window", "last")
    assert result["comparable"] and result["stability"]["verdict"] == verdict
    assert code == exit_code
