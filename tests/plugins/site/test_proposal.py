"""The llmbx.toml that `llmbx init` proposes: llmbx reads it, and it says what is known and what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tomli

from llmbx.catalog.hardware import GpuType
from llmbx.config.profiles import load_config
from llmbx.model import Proposal
from llmbx_site.proposal import Gpus, Site, Tool, gpu_block, render

Golden = Callable[[str, str], None]

CLUSTER = Site(
    host="login1",
    install="/scratch/llmbx",
    free_bytes=1_200_000_000_000,
    tools=(
        Tool(what="runtime", name="enroot", detail=""),
        Tool(what="runtime", name="docker", detail="", problem="docker is not on PATH"),
    ),
    launcher="slurm",
    plugin="slurm",
    gpu_type="h100",
    gpus_per_node=8,
    proposal=Proposal(
        gpu_name="h100",
        gpus_per_node=8,
        settings={"partition": "batch", "gres": "gpu:8"},
        comments={"partition": "batch: 32 nodes with 8 h100", "account": "one of a, b"},
    ),
)

LAPTOP = Site(
    host="laptop", install='/home/a "b"\\c', gpus=Gpus(seen="1 x NVIDIA H200", count=1, type="h200"), gpu_type="h200"
)


@pytest.mark.parametrize(("name", "site"), [("cluster", CLUSTER), ("laptop", LAPTOP)])
def test_the_proposed_file(name: str, site: Site, golden: Golden) -> None:
    golden(f"init-{name}.toml", render(site, "eos", "1.2"))


def test_llmbx_reads_the_profile_of_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "llmbx.toml").write_text(render(CLUSTER, "eos", "1.2"))
    config, _ = load_config({"LLMBX_CONFIG": str(tmp_path / "llmbx.toml")})
    assert (config.default_cluster, config.install) == ("eos", "/scratch/llmbx")
    cluster = config.clusters["eos"]
    assert (cluster.gpu_type, cluster.gpus_per_node, cluster.launcher) == ("h100", 8, "slurm")
    assert cluster.plugin_keys == {"slurm": {"partition": "batch", "gres": "gpu:8"}}


def test_a_machine_without_a_scheduler_gets_no_profile(tmp_path: Path) -> None:
    """A profile would make the full sizes of a cluster the default."""
    assert tomli.loads(render(LAPTOP, "eos", "1.2")) == {"install": '/home/a "b"\\c'}


def test_the_comments_of_a_cluster_can_be_made_settings(tmp_path: Path) -> None:
    text = render(CLUSTER, "eos", "1.2")
    lines = [line.removeprefix("# ") if " = " in line else line for line in text.splitlines()]
    (tmp_path / "llmbx.toml").write_text("\n".join(lines))
    cluster = load_config({"LLMBX_CONFIG": str(tmp_path / "llmbx.toml")})[0].clusters["eos"]
    assert (cluster.runtime, cluster.walltime_minutes) == ("enroot", {"default": 60})
    assert cluster.mounts and cluster.plugin_keys["slurm"]["account"] == ""


def test_the_block_of_a_gpu_describes_it_completely() -> None:
    """With the block in llmbx.toml, the GPU is one of the list."""
    gpu = GpuType(
        name="rtx-a6000",
        title="RTX A6000",
        memory_mib=49140,
        memory_gb=49140 * 2**20 / 1e9,
        compute_capability="8.6",
        match=("^NVIDIA\\ RTX\\ A6000$",),
    )
    gpus = GpuType.extend(tomli.loads(gpu_block(gpu))["gpus"])
    assert gpus["rtx-a6000"] == gpu
    assert GpuType.identify("NVIDIA RTX A6000", gpus) == "rtx-a6000"
