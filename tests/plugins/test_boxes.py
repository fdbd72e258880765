"""Seventeen machines: `run`, `show`, `sweep`, `predict` and `list --here` choose the same for the same words.

The driver's tools are stand-ins that print what those of such a machine print.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from llmbx.catalog import seen
from llmbx.catalog.hardware import GpuType
from llmbx.cli import run
from llmbx.errors import UsageError
from llmbx_prediction.cli import predict
from llmbx_site import list as list_verb
from llmbx_site import show
from llmbx_sweep import cli as sweep

NVIDIA = "NVIDIA {}, {}, 570.86.15, Disabled, {}"
AMD = "GPU: {}\n    ASIC:\n        MARKET_NAME: AMD Instinct MI300X\n        VENDOR_ID: 0x1002\n"

Chosen = tuple[str, str, str, int]
"""Size, dtype, GPU type and number of GPUs."""

BOXES: dict[str, tuple[int, str, Chosen]] = {
    "8 H100": (8, NVIDIA.format("H100 80GB HBM3", 81559, "9.0"), ("8b", "fp8", "h100", 8)),
    "8 H200": (8, NVIDIA.format("H200", 143771, "9.0"), ("8b", "fp8", "h200", 8)),
    "8 A100": (8, NVIDIA.format("A100-SXM4-80GB", 81920, "8.0"), ("8b", "bf16", "a100", 8)),
    "8 A100 of 40 GB": (8, NVIDIA.format("A100-SXM4-40GB", 40960, "8.0"), ("8b-1gpu", "bf16", "a100-40", 1)),
    "8 B200": (8, NVIDIA.format("B200", 183359, "10.0"), ("8b", "fp8", "b200", 8)),
    "4 GB200": (4, NVIDIA.format("GB200", 189471, "10.0"), ("8b", "fp8", "gb200", 4)),
    "8 B300": (8, NVIDIA.format("B300 SXM6 AC", 275040, "10.3"), ("8b", "fp8", "b300", 8)),
    "B300": (1, NVIDIA.format("B300 SXM6 AC", 275040, "10.3"), ("8b", "fp8", "b300", 1)),
    "4 H100 PCIe": (4, NVIDIA.format("H100 PCIe", 81559, "9.0"), ("8b", "fp8", "h100-pcie", 4)),
    "2 H100 NVL": (2, NVIDIA.format("H100 NVL", 95830, "9.0"), ("8b", "fp8", "h100-nvl", 2)),
    "GH200": (1, NVIDIA.format("GH200 480GB", 97871, "9.0"), ("8b-1gpu", "bf16", "gh200", 1)),
    "8 L40S": (8, NVIDIA.format("L40S", 46068, "8.9"), ("8b", "fp8", "l40s", 8)),
    "RTX 4090": (1, NVIDIA.format("GeForce RTX 4090", 24564, "8.9"), ("mini", "bf16", "rtx4090", 1)),
    "2 of no list": (2, NVIDIA.format("RTX A6000", 49140, "8.6"), ("8b-1gpu", "bf16", "rtx-a6000", 1)),
    "DGX Spark": (1, "NVIDIA GB10, [N/A], 580.95.05, [N/A], 12.1", ("8b-1gpu", "bf16", "gb10", 1)),
    "8 MI300X": (8, AMD, ("mini", "fp32", "cpu", 1)),
    "no GPU": (0, "", ("mini", "fp32", "cpu", 1)),
}

SPARK_MIB = 122_502
"""What is left for programs of the 128 GB of a DGX Spark, which its GPU shares with the host."""


@pytest.fixture(params=BOXES)
def box(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chosen:
    """A machine with these GPUs, and what a run without options uses there."""
    count, line, chosen = BOXES[request.param]
    programs = tmp_path / "programs"
    programs.mkdir()
    if count:
        tool = programs / ("amd-smi" if line is AMD else "nvidia-smi")
        answer = "\n".join(line.format(number) for number in range(count))
        tool.write_text(f"#!/bin/sh\n# A stand-in.\ncat <<'END'\n{answer}\nEND\n")
        tool.chmod(0o755)
    monkeypatch.setattr(seen, "host_mib", lambda: SPARK_MIB)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return chosen


def ask(command: click.Command, *arguments: str) -> Any:
    """What a verb answers in JSON."""
    done = CliRunner().invoke(command, [*arguments, "--format", "json"])
    assert done.exit_code == 0, done.exception or done.output
    return json.loads(done.stdout)


def chosen_by(row: dict[str, Any]) -> Chosen:
    return row["size"], row["dtype"], row["gpu_type"], row["gpus"]


def test_five_verbs_choose_the_same(box: Chosen) -> None:
    spec = ask(run.command, "llama3.1", "--dry-run")["spec"]
    assert chosen_by(spec) == box
    assert chosen_by(ask(show.command, "llama3.1")) == box
    (cell,) = ask(sweep.command, "llama3.1", "--dry-run")
    assert chosen_by(cell) == box
    listed = [chosen_by(row) for row in ask(list_verb.command, "--here") if row["workload"] == "llama3.1"]
    assert box in listed
    done = CliRunner().invoke(predict.command, ["llama3.1", "--format", "json"])
    if box[2] != "cpu":
        answer = json.loads(done.stdout)
        _, dtype, gpu_type, gpus = box
        found = answer["configuration"]
        assert (found["layers"], found["seq"]) == (spec["model"]["layers"], spec["model"]["sequence_length"])
        assert (found["dtype"], found["gpu_type"], found["gpus"]) == (dtype, gpu_type, gpus)
        layout = {name: spec["parallelism"][name] or 1 for name in ("tp", "pp", "cp", "ep")}
        assert {name: found.get(name, 1) for name in layout} == layout
        assert found["gbs"] == spec["global_batch_size"]
    elif GpuType.seen():
        assert json.loads(done.stdout)["configuration"]["gpu_type"] == "mi300x", "what the driver's tool names"
    else:
        assert isinstance(done.exception, UsageError), "no GPU was asked for"
