"""The sampler beside the ranks of real runs: one process a node, under both launchers, that ends with the ranks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from llmbx_telemetry.samples import read_samples

from ...patience import wait_until
from ..conftest import files_of

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
LINE = ("run", "line", "--runtime", "host", "--gpus", "4", "--steps", "40", "--set", "pace=0.1")
SLURM = ("--gpus-per-node", "2", "--launcher", "slurm", "--slurm-arg", "nodelist=n1,n2")


@pytest.fixture
def env(slurm: Any) -> dict[str, str]:
    """The variables of a user of this Slurm."""
    return {"SLURM_CONF": str(slurm.config), "LLMBX_PYTHON": sys.executable}


def samplers(folder: Path) -> list[psutil.Process]:
    """The samplers that still run in a folder."""
    return [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(folder)]


@pytest.mark.parametrize(
    ("arguments", "nodes"),
    [((), [["rank0", "rank1", "rank2", "rank3"]]), (SLURM, [["rank0", "rank1"], ["rank2", "rank3"]])],
    ids=["local", "slurm"],
)  # fmt: skip
def test_each_node_is_sampled_once(
    llmbx: Llmbx, env: dict[str, str], arguments: tuple[str, ...], nodes: list[list[str]]
) -> None:
    done = llmbx(*LINE, *arguments, env=env)
    assert done.returncode == 0, done.stderr
    folder = files_of(done.stdout)
    samples = read_samples(folder)
    assert [each.things("rank") for each in samples] == nodes
    assert [each.number for each in samples] == list(range(len(nodes)))
    wait_until(lambda: samplers(folder) == [])
    assert [path.read_text() for path in folder.glob("telemetry/*.err")] == [""] * len(nodes)


def test_a_run_without_telemetry(llmbx: Llmbx, env: dict[str, str]) -> None:
    done = llmbx(*LINE, "--no-telemetry", env=env)
    assert done.returncode == 0, done.stderr
    assert not (files_of(done.stdout) / "telemetry").exists()
