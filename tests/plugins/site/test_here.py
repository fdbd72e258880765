"""What a machine with GPUs runs without a size, and what `list --here` shows. nvidia-smi is a stand-in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli
from click.testing import CliRunner, Result

from llmbx.cli import run
from llmbx_site import doctor, init
from llmbx_site import list as list_verb

from ...run_factory import RunFactory

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
UNKNOWN = "NVIDIA RTX A6000, 49140, 550.54.15, [N/A], 8.6"
L40S = "NVIDIA L40S, 46068, 550.54.15, [N/A], 8.9"

Machine = Callable[[str, int], None]


@pytest.fixture
def stand_in_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Give this machine GPUs of a product name."""
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", str(tmp_path / "llmbx.toml"))
    (tmp_path / "llmbx.toml").write_text("")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def give(product: str, count: int) -> None:
        program = tmp_path / "bin" / "nvidia-smi"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n# A stand-in.\n" + f"echo '{product}'\n" * count)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")

    return give


def _spec(*arguments: str) -> dict[str, object]:
    done = CliRunner().invoke(run.command, [*arguments, "--dry-run", "--format", "json"], catch_exceptions=False)
    found: dict[str, object] = json.loads(done.stdout)["spec"]
    return found


def _list(*arguments: str) -> Result:
    return CliRunner().invoke(list_verb.command, ["--here", *arguments], catch_exceptions=False)


@pytest.mark.parametrize(
    ("product", "count", "arguments", "runs", "why"),
    [
        (H100, 8, ("llama3.1",), ("8b", "fp8", 8), "the largest size with a recipe for 8 h100 GPUs"),
        (H100, 8, ("llama3.1", "--dtype", "bf16"), ("8b", "bf16", 8), "the largest size with a recipe for 8 h100 GPUs"),
        (H100, 1, ("llama3.1",), ("8b-1gpu", "bf16", 1), "the largest part of a model with a recipe for 1 h100 GPU"),
        (H100, 3, ("llama3.1",), ("8b", "fp8", 3), "the largest size with a recipe that scales to 3 h100 GPUs"),
        (H100, 8, ("grok1",), ("mini", "bf16", 1),
         "no recipe is for 8 h100 GPUs; 314b is the smallest, with 512 h100 GPUs"),
        (H200, 1, ("grok1",), ("314b-1gpu", "bf16", 1), "the largest part of a model with a recipe for 1 h200 GPU"),
        (UNKNOWN, 2, ("llama3.1",), ("8b-1gpu", "bf16", 1),
         "the largest part of a model with a recipe for 1 rtx-a6000 GPU"),
        (UNKNOWN, 2, ("grok1",), ("mini", "bf16", 1), "no recipe of grok1 fits 2 rtx-a6000 GPUs with 52 GB"),
        (L40S, 8, ("llama3.1",), ("8b", "fp8", 8), "the largest size with a recipe for 8 l40s GPUs"),
        (L40S, 4, ("llama3.1",), ("8b-1gpu", "bf16", 1), "the largest part of a model with a recipe for 1 l40s GPU"),
        (H200, 8, ("llama3.1",), ("8b", "fp8", 8), "the largest size with a recipe for 8 h200 GPUs"),
        (H100, 8, ("llama3.1", "--size", "mini"), ("mini", "bf16", 1), "--size"),
        (H100, 8, ("llama3.1", "--gpus", "64", "--size", "70b"), ("70b", "fp8", 64), "--size"),
        (H100, 8, ("llama3.1", "--gpus", "1024"), ("405b", "fp8", 1024), "default of llama3.1"),
    ],
)  # fmt: skip
def test_a_run_without_a_size_is_the_largest_that_the_machines_gpus_run(
    stand_in_nvidia_smi: Machine, product: str, count: int, arguments: tuple[str, ...], runs: tuple[str, str, int],
    why: str,
) -> None:  # fmt: skip
    stand_in_nvidia_smi(product, count)
    found = _spec(*arguments)
    assert (found["size"], found["dtype"], found["gpus"]) == runs
    assert found["origins"]["size"] == why  # type: ignore[index]


def test_a_gpu_that_is_not_in_the_list_is_used_and_named(stand_in_nvidia_smi: Machine) -> None:
    stand_in_nvidia_smi(UNKNOWN, 1)
    spec = _spec("llama3.1")
    assert (spec["gpu_type"], spec["peak"]) == ("rtx-a6000", None)
    named = "1 x NVIDIA RTX A6000, 49140 MiB each, compute capability 8.6"
    assert f"llmbx: 1 x rtx-a6000: this machine ({named}" in " ".join(_list().stderr.split())
    (gpu,) = [row for row in json.loads(CliRunner().invoke(doctor.command, ["--format", "json"]).stdout)
              if row["what"] == "GPU"]  # fmt: skip
    assert (gpu["name"], gpu["state"]) == ("rtx-a6000", "ok") and named in gpu["detail"]
    done = CliRunner().invoke(init.command, ["--output", "-"], catch_exceptions=False)
    assert "the file describes it as [gpus.rtx-a6000]" in " ".join(done.stderr.split())
    assert tomli.loads(done.stdout)["gpus"]["rtx-a6000"]["memory_mib"] == 49140


def test_what_fits_a_machine_with_eight_gpus(stand_in_nvidia_smi: Machine) -> None:
    stand_in_nvidia_smi(H100, 8)
    rows = {(row["size"], row["dtype"]): row for row in json.loads(_list("llama3.1", "--format", "json").stdout)}
    assert [*rows] == [("8b", "fp8"), ("8b", "bf16"), ("8b-1gpu", "bf16"), ("mini", "bf16")]
    assert [row["kind"] for row in rows.values()] == ["benchmark", "benchmark", "part of a model", "mini"]
    assert rows["8b", "fp8"]["from"] == "predicted", "the published figure is of another recipe, as show says"
    published = rows["8b", "bf16"]
    assert published["gpus"] == 8 and published["from"] == "published, memory predicted"
    assert 30 < published["memory_gb"] < 80 and published["memory_gb"] == round(published["memory_gb"])
    assert published["time_50_steps_s"] == 50 * 12.27
    assert "8 x h100: this machine" in _list().stderr


def test_the_newest_valid_run_of_the_install_gives_time_and_memory(
    stand_in_nvidia_smi: Machine, run_factory: RunFactory
) -> None:
    """Of the runs of the factory: on 8 H100, in the install of these tests."""
    stand_in_nvidia_smi(H100, 8)
    case = {"workload": "llama3.1", "plugin": "nemo", "size": "8b", "dtype": "fp8"}
    for number, seconds in enumerate((7.0, 8.0)):
        run_factory.put([seconds] * 50, result={"peak_memory_gb": 70.0 + number}, **case)
    run_factory.put([1.0] * 50, valid=False, **case)
    run_factory.put([2.0] * 50, result={"profiled": True}, **case)
    found = {(row["size"], row["dtype"]): row for row in json.loads(_list("llama3.1", "--format", "json").stdout)}
    row = found["8b", "fp8"]
    assert (row["time_50_steps_s"], row["memory_gb"]) == (400.0, 71.0)
    assert row["from"].startswith("run ")


def test_what_cannot_fit_the_memory_is_left_out(stand_in_nvidia_smi: Machine, tmp_path: Path) -> None:
    cluster = '[clusters.old]\ngpu_type = "h100"\n'
    (tmp_path / "llmbx.toml").write_text(cluster)
    whole = json.loads(_list("llama3.1", "--cluster", "old", "--format", "json").stdout)
    (tmp_path / "llmbx.toml").write_text(cluster + "[gpus.h100]\nmemory_gb = 40\n")
    small = json.loads(_list("llama3.1", "--cluster", "old", "--format", "json").stdout)
    assert ("405b", "bf16") in {(row["size"], row["dtype"]) for row in whole}
    assert all(row["memory_gb"] is None or row["memory_gb"] < 55 for row in small)
    assert {row["size"] for row in small} >= {"8b", "mini"} and len(small) < len(whole)


def test_what_fits_the_cluster_of_a_profile(stand_in_nvidia_smi: Machine, tmp_path: Path) -> None:
    (tmp_path / "llmbx.toml").write_text('[clusters.big]\ngpu_type = "gb200"\n[clusters.bare]\n')
    found = json.loads(_list("grok1", "--cluster", "big", "--format", "json").stdout)
    assert {(row["gpus"], row["kind"]) for row in found} >= {(128, "benchmark"), (256, "benchmark"), (1, "mini")}
    assert {row["gpu_type"] for row in found} == {"gb200"}
    for arguments, said in (
        (["--here", "--cluster", "bare"], "has no gpu_type"),
        (["--cluster", "big"], "needs --here"),
    ):
        refused = CliRunner().invoke(list_verb.command, arguments)
        assert said in str(refused.exception)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("echo NVIDIA-SMI has failed: no driver; exit 9", "nvidia-smi failed: NVIDIA-SMI has failed: no driver"),
        ("exec sleep 60", "nvidia-smi does not answer within 0.2 s"),
    ],
)
def test_a_driver_that_fails_is_not_an_absent_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, said: str
) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setattr("llmbx.catalog.seen.ANSWER_S", 0.2)
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n# A stand-in.\n{lines}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert said in _list().stderr
    assert _spec("llama3.1")["origins"]["gpu_type"] == said  # type: ignore[index]
    done = CliRunner().invoke(doctor.command, ["--format", "json"])
    (gpu,) = [row for row in json.loads(done.stdout) if row["what"] == "GPU"]
    assert (gpu["state"], gpu["detail"]) == ("broken", said)


def test_gpus_of_several_types_are_named(stand_in_nvidia_smi: Machine, tmp_path: Path) -> None:
    stand_in_nvidia_smi(H100, 1)
    with (tmp_path / "bin" / "nvidia-smi").open("a") as program:
        program.write(f"echo '{H200}'\n")
    assert "1 x h100: the GPUs of one type; this machine has several" in _list().stderr
    found = CliRunner().invoke(init.command, ["--output", "-"], catch_exceptions=False).stderr
    named = f"1 x {H100} and 1 x {H200}: GPUs of several types; runs use those of type h100"
    assert named in " ".join(found.split())


def test_what_an_h200_and_an_a100_run_is_borrowed(stand_in_nvidia_smi: Machine) -> None:
    """The commonest machines after eight H100: their own rows, and those of the H100 that fit."""
    stand_in_nvidia_smi("NVIDIA A100-SXM4-80GB, 81920, 550.54, Disabled, 8.0", 8)
    listed = json.loads(_list("llama3.1", "--format", "json").stdout)
    kinds = {(row["size"], row["dtype"]): row["kind"] for row in listed}
    assert kinds == {
        ("8b", "bf16"): "benchmark, layout of h100",
        ("8b-1gpu", "bf16"): "part of a model, layout of h100",
        ("mini", "bf16"): "mini",
    }
    assert {row["layout_of"] for row in listed} == {"h100", None}


def test_a_row_whose_memory_is_above_that_of_the_gpu_is_marked(stand_in_nvidia_smi: Machine) -> None:
    stand_in_nvidia_smi("NVIDIA A100-SXM4-80GB, 81920, 550.54, Disabled, 8.0", 16)
    listed = json.loads(_list("--format", "json").stdout)
    rows = {row["workload"]: row for row in listed if row["size"] == "30b-a3b"}
    assert rows["nemotron3"]["memory_gb"] > 86 > rows["qwen3"]["memory_gb"]
    assert rows["nemotron3"]["from"] == "predicted; above the 86 GB of a100"
    assert (rows["nemotron3"]["fits_memory"], rows["qwen3"]["fits_memory"]) == (False, True)


SCONTROL = """#!/bin/sh
# A stand-in.
echo 'PartitionName=gpu Default=YES MaxNodes=UNLIMITED MinNodes=0 TotalNodes=4 TotalCPUs=400'
"""


def test_a_partition_is_offered_no_more_gpus_than_it_has(stand_in_nvidia_smi: Machine, tmp_path: Path) -> None:
    """Four nodes of four GPUs each."""
    stand_in_nvidia_smi(H200, 0)
    for name, text in {"scontrol": SCONTROL, "sbatch": "#!/bin/sh\n"}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "bin" / "nvidia-smi").unlink()
    table = '[clusters.c]\ngpu_type = "h200"\ngpus_per_node = 4\nlauncher = "slurm"\n'
    (tmp_path / "llmbx.toml").write_text(f'default_cluster = "c"\n{table}')
    gpus = {row["gpus"] for row in json.loads(_list("llama3.1", "--format", "json").stdout)}
    assert {1, 8, 16} <= gpus and max(gpus) == 16
