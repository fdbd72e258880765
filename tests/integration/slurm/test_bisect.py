"""Nodes of a real Slurm: of sixteen one is slow by stand-ins that sleep, and one has another driver by a stand-in.

A trainer, PyTorch and nvidia-smi are stand-ins; the launcher, the jobs and the judgement are real.
"""

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

from ...plugins.accept import stand_in_gpus
from . import cluster

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
NODES = 16
LINE = ("line", "--runtime", "host", "--launcher", "slurm", "--gpus-per-node", "1", "--set", "pace=0.05")
SLOW = ("--set", "slow_nodes=n6=1.05")
TORCH = Path(__file__).parents[2] / "fixtures" / "stand_in_torch"


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


def test_a_node_with_another_driver_is_named_by_doctor(llmbx: Llmbx, env: dict[str, str], tmp_path: Path) -> None:
    faults = {"n5": {"driver": "560.35.03"}, "n9": {"fails": "NVIDIA-SMI has failed"}}
    place = stand_in_gpus.write(tmp_path / "stand-in-for-nvidia-smi", sys.executable, faults)
    env = {**env, "PATH": f"{place}:{os.environ['PATH']}"}
    options = ("--gpu-type", "h100", "--gpus-per-node", "8", "--cuda", "13.1", "--format", "json")
    done = llmbx("doctor", "--nodes", f"n[1-{NODES}]", *options, env=env)
    assert done.returncode == 4, done.stderr
    answer = json.loads(done.stdout)
    assert answer["isolate"] == ["n5", "n9"]
    errors = [cell for cell in answer["cells"] if cell["severity"] == "error"]
    faults = {(cell["node"], cell["check"]) for cell in errors if cell["state"] in ("bad", "drift")}
    assert faults == {("n5", "gpu.driver"), ("n5", "gpu.cuda_of_image"), ("n9", "gpu.driver_works")}
    states = {(cell["node"], cell["check"]): cell["state"] for cell in answer["cells"]}
    assert states["n9", "gpu.count"] == "not checked" and states["n1", "gpu.cuda_of_image"] == "ok"


def test_a_node_that_cannot_be_asked_does_not_keep_the_others_from_it(
    llmbx: Llmbx, env: dict[str, str], sixteen: Any
) -> None:
    sixteen.call("scontrol", "update", "nodename=n2", "state=drain", "reason=bad DIMM")
    try:
        done = llmbx("doctor", "--nodes", "n1,n2,n99", "--format", "json", env=env)
    finally:
        sixteen.call("scontrol", "update", "nodename=n2", "state=resume")
    answer = json.loads(done.stdout)
    reasons = {cell["node"]: cell["reason"] for cell in answer["cells"] if cell["check"] == "cpu.count"}
    assert done.returncode == 4 and answer["isolate"] == ["n2", "n99"], done.stderr
    assert reasons == {"n1": None, "n2": "not asked: drained: bad DIMM", "n99": "not asked: not a node of this cluster"}


def test_the_speed_of_each_node_and_of_pairs(llmbx: Llmbx, env: dict[str, str]) -> None:
    stand_in = {"PYTHONPATH": str(TORCH), "STAND_IN_SLOW": "n6=4"}
    options = ("--nodes", f"n[1-{NODES}]", "--budget", "6", "--format", "json")
    done = llmbx("nodes", "speed", *LINE, *options, env={**env, **stand_in})
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout)
    slow = [row for row in report["rows"] if row["slow"]]
    assert {row["node"] for row in slow if row["slower"] > 1} == {"n6"}, slow  # a busy machine slows some by a tenth
    measured = {row["measure"] for row in report["rows"] if row["node"] == "n6"}
    assert {"gemm.fp32", "gemm.bf16", "copy", "disk", "pair", "tree.2", "tree.16"} <= measured
    assert report["not_measured"] == {"host_to_device": "no GPU"}


def test_each_node_alone_is_compared_with_the_others(llmbx: Llmbx, env: dict[str, str]) -> None:
    plan = ("--gpus", "1", "--each-node", f"n[1-{NODES}]", "--max-jobs", str(NODES), "--format", "json")
    done = llmbx("sweep", *LINE, "--set", "slow_nodes=n6=1.08", *plan, env=env)
    assert done.returncode == 3, done.stderr
    rows = json.loads(done.stdout)
    assert [row["node"] for row in rows if row["slow"]] == ["n6"], rows
    assert len(rows) == NODES and all(row["status"] == "completed" for row in rows)
