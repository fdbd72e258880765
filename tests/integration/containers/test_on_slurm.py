"""Runs on a real Slurm whose ranks srun starts in containers by the tools' own commands, on two nodes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ...patience import PATIENCE_S
from ..slurm import cluster
from .tools import TOOLS, Daemons, trainers

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Background = Callable[..., subprocess.Popen[str]]
Result = Callable[[Path], dict[str, Any]]
MARK = "etc/second"
"""A file that only the image has."""


@pytest.fixture
def asked(daemons: Daemons, images: dict[str, str]) -> tuple[str, ...]:
    """A run of four ranks on two nodes, in the image with the mark."""
    image = ("--image", f"{daemons.registry}/ci/tiny:2")
    return ("line", *image, "--launcher", "slurm", "--gpus", "4", "--gpus-per-node", "2", "--set", "hold=go")


@pytest.fixture
def user_env(tool_env: dict[str, str], slurm: cluster.Cluster) -> dict[str, str]:
    """The variables of a user of that cluster."""
    return {**tool_env, "SLURM_CONF": str(slurm.config)}


def wait_for_ranks(install: Path, number: int) -> list[psutil.Process]:
    limit = time.monotonic() + PATIENCE_S
    while len(found := trainers(install)) != number:
        assert time.monotonic() < limit, f"{len(found)} of {number} ranks"
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("tool", TOOLS)
def test_srun_starts_every_rank_in_its_container(
    tool: str, background: Background, user_env: dict[str, str], asked: tuple[str, ...], images: dict[str, str],
    install: Path, only_run: Callable[..., Path], read_result: Result,
) -> None:  # fmt: skip
    process = background("run", *asked, "--runtime", tool, env=user_env)
    found = wait_for_ranks(install, 4)
    assert all(Path(f"/proc/{rank.pid}/root/{MARK}").exists() for rank in found)
    places = sorted((rank.environ()["LLMBX_NODE_RANK"], rank.environ()["LLMBX_RANK"]) for rank in found)
    assert places == [("0", "0"), ("0", "1"), ("1", "2"), ("1", "3")]
    (only_run() / "go").touch()
    _, err = process.communicate(timeout=PATIENCE_S)
    result = read_result(only_run())
    assert (process.returncode, result["status"], result["runtime"]) == (0, "completed", tool), err
    assert result["image"]["digest"] == images["ci/tiny:2"]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_cancelled_job_leaves_no_container(
    tool: str, llmbx: Llmbx, user_env: dict[str, str], asked: tuple[str, ...], install: Path, daemons: Daemons,
    only_run: Callable[..., Path], read_result: Result,
) -> None:  # fmt: skip
    started = llmbx("run", *asked, "--runtime", tool, "--detach", env=user_env)
    assert started.returncode == 0, started.stderr
    wait_for_ranks(install, 4)
    done = llmbx("cancel", only_run().parent.name, env=user_env)
    assert done.returncode == 0, done.stderr
    wait_for_ranks(install, 0)
    limit = time.monotonic() + PATIENCE_S
    while daemons.docker("ps", "--all", "--quiet").stdout:
        assert time.monotonic() < limit, "a container is left"
        time.sleep(0.2)
    assert llmbx("status", only_run().parent.name, env=user_env).returncode in (0, 1)
    assert read_result(only_run())["status"] == "cancelled"
