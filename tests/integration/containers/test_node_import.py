"""`llmbx image prepare` on a compute node of a real Slurm, with the cluster profile's account and partition."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx_slurm.launcher import SlurmLauncher

from ...patience import wait_until
from ..slurm import cluster
from .tools import Daemons

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
PROFILE = """\
default_cluster = "test"

[clusters.test]
launcher = "slurm"
runtime = "apptainer"
gpu_type = "h100"
account = "bench"
partition = "batch"
"""


@pytest.fixture
def cluster_env(tool_env: dict[str, str], slurm: cluster.Cluster, tmp_path: Path) -> dict[str, str]:
    """The variables of a user of that cluster, with its profile."""
    (tmp_path / "llmbx.toml").write_text(PROFILE)
    return {**tool_env, "SLURM_CONF": str(slurm.config), "LLMBX_CONFIG": str(tmp_path / "llmbx.toml")}


def jobs(slurm: cluster.Cluster) -> list[dict[str, str]]:
    """Every job that there was, as scontrol shows it."""
    lines = slurm.call("scontrol", "--oneliner", "show", "job").splitlines()
    return [dict(field.split("=", 1) for field in line.split() if "=" in field) for line in lines]


def test_an_image_is_imported_on_a_node(
    llmbx: Llmbx, cluster_env: dict[str, str], slurm: cluster.Cluster, images: dict[str, str], daemons: Daemons,
    install: Path,
) -> None:  # fmt: skip
    reference = f"{daemons.registry}/ci/tiny:1"
    done = llmbx("image", "prepare", reference, env=cluster_env)
    assert done.returncode == 0, done.stderr
    assert "on a compute node" in done.stderr and images["ci/tiny:1"] in done.stdout
    assert (install / "images/ci+tiny+1.sif").is_file()

    def job() -> dict[str, str]:
        (only,) = (job for job in jobs(slurm) if job["JobName"] == "llmbx-image")
        return only

    # srun returns with the step; Slurm's controller completes the job a moment later.
    wait_until(lambda: job()["JobState"] != "COMPLETING", "the job stayed in COMPLETING")
    ended = job()
    assert (ended["Account"], ended["Partition"], ended["NodeList"]) == ("bench", "batch", "n1")
    assert (ended["JobState"], ended["NumTasks"]) == ("COMPLETED", "1")


def test_a_digest_that_is_not_the_asked_one_stops_the_import_there(
    llmbx: Llmbx, cluster_env: dict[str, str], images: dict[str, str], daemons: Daemons, install: Path
) -> None:
    reference, gone = f"{daemons.registry}/ci/tiny:1", f"sha256:{'9' * 64}"
    done = llmbx("image", "prepare", reference, "--digest", gone, env=cluster_env)
    assert done.returncode == 4 and f"is pinned to {gone}, but" in done.stderr, done.stderr
    assert list(install.glob("images/*.sif")) == []


def test_the_image_with_the_asked_digest_is_imported_whatever_the_tag_is_now(
    llmbx: Llmbx, cluster_env: dict[str, str], images: dict[str, str], daemons: Daemons, install: Path
) -> None:
    reference, earlier = f"{daemons.registry}/ci/tiny:1", images["ci/tiny:2"]
    done = llmbx("image", "prepare", reference, "--digest", earlier, env=cluster_env)
    assert done.returncode == 0 and earlier in done.stdout, done.stderr


def test_a_partition_that_there_is_not_is_the_schedulers_word(
    llmbx: Llmbx, cluster_env: dict[str, str], images: dict[str, str], daemons: Daemons, install: Path
) -> None:
    asked = ("--slurm-arg", "partition=none")
    done = llmbx("image", "prepare", f"{daemons.registry}/ci/tiny:1", *asked, env=cluster_env)
    assert done.returncode == 4 and "invalid partition" in done.stderr.lower(), done.stderr
    assert list(install.glob("images/*.sif")) == []


def test_the_doctor_asks_the_scheduler(
    llmbx: Llmbx, cluster_env: dict[str, str], slurm: cluster.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = json.loads(llmbx("doctor", "--format", "json", env=cluster_env).stdout)
    assert [row["state"] for row in rows if (row["what"], row["name"]) == ("launcher", "slurm")] == ["ok"]
    monkeypatch.setenv("SLURM_CONF", str(slurm.config))
    partitions = set(slurm.call("sinfo", "--noheader", "--format=%R").split())
    try:
        for name in partitions:
            slurm.call("scontrol", "update", f"PartitionName={name}", "State=DOWN")
        found = SlurmLauncher().check(tmp_path)
        assert found is not None and found.problem == "no partition is up" and not found.warning
    finally:
        for name in partitions:
            slurm.call("scontrol", "update", f"PartitionName={name}", "State=UP")
    (tmp_path / "slurm.conf").write_text("ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    found = SlurmLauncher().check(tmp_path)
    assert found is not None and "sinfo" in found.problem and not found.warning
