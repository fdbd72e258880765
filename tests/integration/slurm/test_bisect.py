"""`llmbx nodes` on a real Slurm of sixteen nodes; one is slow by a stand-in, a trainer whose steps are sleeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from . import cluster

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
NODES = 16
LINE = ("line", "--runtime", "host", "--launcher", "slurm", "--gpus-per-node", "1", "--set", "pace=0.05")
SLOW = ("--set", "slow_nodes=n6=1.05")


@pytest.fixture(scope="module")
def sixteen() -> Iterator[Any]:
    """A Slurm of sixteen nodes in this machine."""
    why = cluster.install()
    assert why is None or not os.environ.get("CI"), why
    if why:
        pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="llmbx-slurm-") as folder:
        private = cluster.Cluster(Path(folder), nodes=NODES, cpus=2)
        try:
            private.start()
            yield private
        finally:
            private.stop()


@pytest.fixture
def env(sixteen: Any) -> dict[str, str]:
    return {"SLURM_CONF": str(sixteen.config), "LLMBX_PYTHON": sys.executable}


def test_a_slow_node_of_sixteen_is_found(llmbx: Llmbx, env: dict[str, str]) -> None:
    done = llmbx("nodes", "bisect", *LINE, *SLOW, "--nodes", f"n[1-{NODES}]", "--format", "json", env=env)
    assert done.returncode == 3, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["slow"] == {"n6": pytest.approx(0.05, abs=0.02)} and not outcome["undecided"], done.stderr
    assert len(outcome["healthy"]) == NODES - 1
    nodes = json.loads(llmbx("nodes", "--format", "json", env=env).stdout)
    assert len(nodes) == NODES
    assert max(nodes, key=lambda node: node["slower"] or 0.0)["node"] == "n6"
