"""An acceptance on a real Slurm whose nodes are loopback ones: one is slow and one has another driver, by stand-ins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ...plugins.accept import stand_in_gpus
from ..conftest import clean_environment
from .test_bisect import sixteen  # noqa: F401 (a fixture)

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
NODES = "n[1-8]"
SUITE = """
title = "Eight nodes"
[[items]]
kind = "doctor"
criteria = { suspects = 0 }
[[items]]
kind = "each-node"
workload = "line"
steps = 20
repeats = 2
set = { pace = 0.05, slow_nodes = "n6=1.05" }
criteria = { suspects = 0 }
[[items]]
kind = "workload"
workload = "line"
gpus = "all"
steps = 20
set = { pace = 0.05, slow_nodes = "n6=1.05" }
"""


@pytest.fixture
def env(sixteen: Any, tmp_path: Path) -> dict[str, str]:  # noqa: F811
    place = stand_in_gpus.write(tmp_path / "stand-in-for-nvidia-smi", sys.executable, {"n5": {"driver": "560.35.03"}})
    path = f"{place}:{os.environ['PATH']}"
    return {"SLURM_CONF": str(sixteen.config), "LLMBX_PYTHON": sys.executable, "PATH": path}


def test_bad_nodes_are_excluded_and_the_archive_is_verified(llmbx: Llmbx, env: dict[str, str], tmp_path: Path) -> None:
    suite, archive = tmp_path / "eight.toml", tmp_path / "eight.tar.gz"
    suite.write_text(SUITE)
    place = ("--nodes", NODES, "--gpu-type", "cpu", "--launcher", "slurm", "--runtime", "host")
    done = llmbx("accept", str(suite), *place, "--archive", str(archive), "--format", "json", env=env)
    assert done.returncode == 3, done.stderr
    summary = json.loads(done.stdout)["summary"]
    assert [row["verdict"] for row in summary["rows"]] == ["fail", "fail", "pass"]
    assert [*summary["exclude"]] == ["n5", "n6"] and "560.35.03" in summary["exclude"]["n5"]
    assert summary["verdict"] == "not accepted" and summary["mini"]
    verified = llmbx("verify", str(archive), "--format", "json", env=env)
    answer = json.loads(verified.stdout)
    assert verified.returncode == 0 and answer["runs"] == 17 and not answer["problems"], verified.stdout
    assert answer["unchecked"] == []
    again = llmbx("accept", str(suite), *place, "--format", "csv", env=env)
    assert again.returncode == 3 and "3 of 3 items done" in again.stderr and "started" not in again.stderr


ONE = """
title = "One"
[[items]]
kind = "workload"
workload = "line"
steps = 40
set = { pace = 0.1 }
"""


def test_an_acceptance_that_is_killed_goes_on_with_its_job(
    llmbx: Llmbx, env: dict[str, str], install: Path, tmp_path: Path
) -> None:
    suite = tmp_path / "one.toml"
    suite.write_text(ONE)
    options = (
        "accept",
        str(suite),
        "--gpu-type",
        "cpu",
        "--launcher",
        "slurm",
        "--runtime",
        "host",
        "--nodes",
        "n1",
    )
    command = [sys.executable, "-m", "llmbx", *options]
    environment = clean_environment(install, **env)
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if line.startswith("started"))
        process.kill()
    done = llmbx(*options, "--format", "json", env=env)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["summary"]["rows"]
    assert row["verdict"] == "pass" and len(row["runs"]) == 1
    assert "goes on with" in done.stderr and "\nstarted" not in done.stderr
