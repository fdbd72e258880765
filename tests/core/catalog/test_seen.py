"""The GPUs of a machine by its driver's tool. Every tool here is a stand-in; the formats are those of the sources in
`llmbx.catalog.seen`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.catalog import seen
from llmbx.catalog.hardware import GpuType, unlisted

StandIn = Callable[[str, str], None]

H100 = "NVIDIA H100 80GB HBM3, 81559, 570.86.15, Disabled, 9.0\n"
A6000 = "NVIDIA RTX A6000, 49140, 550.54.15, [N/A], 8.6\n"
MIG = "NVIDIA A100-SXM4-80GB, 81920, 535.183.01, Enabled, 8.0\n"

MIG_LIST = """GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.40gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 3g.40gb     Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-bdb2ebc6-9f1a-4b0a-9f2a-0d1fbe04a1bd)
"""

AMD_SMI = """GPU: 0
    ASIC:
        MARKET_NAME: AMD Instinct MI300X
        VENDOR_ID: 0x1002

GPU: 1
    ASIC:
        MARKET_NAME: AMD Instinct MI300X
        VENDOR_ID: 0x1002
"""

ROCM_SMI = """device,Card series,Card model,Card vendor,Card SKU
card0,Arcturus GL-XL [AMD Instinct MI100],0x0c34,Advanced Micro Devices Inc. [AMD/ATI],D34316
card1,Arcturus GL-XL [AMD Instinct MI100],0x0c34,Advanced Micro Devices Inc. [AMD/ATI],D34316
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """`stand_in(name, shell)` makes these lines of shell the tool of this name; there are no others."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin")
    monkeypatch.setattr(seen.shutil, "which", lambda name: str(programs / name) if (programs / name).exists() else None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def put(name: str, shell: str) -> None:
        program = programs / name
        program.write_text(f"#!/bin/sh\n# A stand-in for {name}.\n{shell}\n")
        program.chmod(0o755)

    return put


def printing(text: str) -> str:
    return f"cat <<'END'\n{text}END"


@pytest.mark.parametrize(
    ("answer", "visible", "detected"),
    [
        (H100 * 8, None, ("h100", 8)),
        (H100 * 8, "0,1", ("h100", 2)),
        (H100 * 8, "", None),
        ("NVIDIA GB200\n" * 4, None, ("gb200", 4)),
        ("NVIDIA T400\nNVIDIA H200\nNVIDIA H200\n", None, ("h200", 2)),
        (A6000 * 2, None, ("rtx-a6000", 2)),
        ("Tesla V100-SXM2-32GB, 32768, 470.182.03, [N/A]\n", None, ("tesla-v100-sxm2-32gb", 1)),
        ("NVIDIA GB10, [N/A], 580.95, [N/A], 12.1\n", None, ("gb10", 1)),
        ("", None, None),
    ],
)
def test_detection(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, answer: str, visible: str | None, detected: tuple[str, int]
) -> None:
    stand_in("nvidia-smi", printing(answer))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert GpuType.detect() == detected


def test_a_gpu_without_memory_of_its_own_has_that_of_the_host(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen, "host_mib", lambda: 122_502)
    stand_in("nvidia-smi", printing("NVIDIA GB10, [N/A], 580.95, [N/A], 12.1\n"))
    assert str(unlisted("gb10")) == (
        "1 x NVIDIA GB10, 122502 MiB that the host shares with it, compute capability 12.1, driver 580.95"
    )
    assert GpuType.named("gb10").memory_gb == pytest.approx(128.45, abs=0.01)


def test_a_gpu_that_is_not_in_the_list_is_a_type_made_from_what_was_seen(stand_in: StandIn) -> None:
    stand_in("nvidia-smi", printing(A6000 * 2))
    group = unlisted("rtx-a6000")
    assert str(group) == "2 x NVIDIA RTX A6000, 49140 MiB each, compute capability 8.6, driver 550.54.15"
    own = GpuType.named("RTX-A6000")
    assert (own.memory_mib, own.compute_capability, own.title, own.peaks) == (49140, "8.6", "RTX A6000", {})
    assert own.memory_gb == pytest.approx(51.5, abs=0.1)
    assert own.computes("bf16") and not own.computes("fp8")


def test_a_driver_that_does_not_know_the_capability_is_asked_again(stand_in: StandIn) -> None:
    stand_in(
        "nvidia-smi",
        'case "$1" in *compute_cap*) echo \'Field "compute_cap" is not a valid field to query.\'; exit 2;; esac\n'
        + printing("NVIDIA A100-SXM4-40GB, 40536, 470.182.03, Disabled\n"),
    )
    (group,) = seen.seen()
    assert (group.memory_mib, group.compute_capability) == (40536, None)
    assert GpuType.detect() == ("a100-40", 1)


def test_a_slice_is_not_a_whole_gpu(stand_in: StandIn) -> None:
    stand_in("nvidia-smi", f'if [ "$1" = -L ]; then {printing(MIG_LIST)}\nelse {printing(MIG)}\nfi')
    slices, whole = seen.seen()
    assert (slices.product, slices.count, slices.kind) == ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 2, "MIG")
    assert (whole.product, whole.count, whole.memory_mib) == ("NVIDIA A100-SXM4-80GB", 1, 81920)
    assert GpuType.detect() == ("a100", 1), "a whole one is preferred"


def test_a_run_uses_one_slice(stand_in: StandIn) -> None:
    listing = MIG_LIST.partition("GPU 1")[0]
    stand_in("nvidia-smi", f'if [ "$1" = -L ]; then {printing(listing)}\nelse {printing(MIG)}\nfi')
    assert GpuType.detect() == ("a100-sxm4-80gb-mig-3g-40gb", 1)
    own = GpuType.named("a100-sxm4-80gb-mig-3g-40gb")
    assert (own.memory_gb, own.memory_mib, own.peaks) == (40, None, {})


@pytest.mark.parametrize("product", ["GRID A100D-40C", "NVIDIA L40S-48Q", "GRID A100-1-5C", "NVIDIA A100-3-20CME"])
def test_a_virtual_gpu_is_not_a_whole_one(stand_in: StandIn, product: str) -> None:
    stand_in("nvidia-smi", printing(f"{product}, 40960, 535.183.01, Disabled, 8.0\n"))
    (group,) = seen.seen()
    assert group.kind == "vGPU"
    chosen = GpuType.here()
    assert chosen is not None and chosen[0].peaks == {}, "a part of a GPU has no peak of the whole"


@pytest.mark.parametrize(
    ("tool", "answer", "sentence"),
    [
        ("amd-smi", AMD_SMI, "2 x AMD Instinct MI300X: llmbx cannot run on AMD GPUs; llmbx predict and llmbx atlas "
         "know mi300x"),
        ("rocm-smi", ROCM_SMI, "2 x Arcturus GL-XL [AMD Instinct MI100]: llmbx cannot run on AMD GPUs"),
    ],
)  # fmt: skip
def test_amd_gpus_are_seen_and_named(stand_in: StandIn, tool: str, answer: str, sentence: str) -> None:
    stand_in(tool, printing(answer))
    assert GpuType.detect() is None
    assert GpuType.why_cpu() == sentence


def test_an_nvidia_tool_without_gpus_does_not_hide_amds(stand_in: StandIn) -> None:
    stand_in("nvidia-smi", "echo 'NVIDIA-SMI has failed because it couldn'; exit 9")
    assert GpuType.why_cpu() == "nvidia-smi failed: NVIDIA-SMI has failed because it couldn"
    stand_in("rocm-smi", printing(ROCM_SMI))
    assert GpuType.why_cpu() == "2 x Arcturus GL-XL [AMD Instinct MI100]: llmbx cannot run on AMD GPUs"


def test_hidden_gpus_are_not_called_absent(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in("nvidia-smi", printing(H100))
    assert GpuType.why_cpu() is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert GpuType.why_cpu() == "CUDA_VISIBLE_DEVICES names none of this machine's GPUs"


def test_a_driver_without_its_tool_is_named(stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that has the devices, but not the driver's programs."""
    driver = tmp_path / "version"
    monkeypatch.setattr("llmbx.catalog.seen.DRIVER", driver)
    assert GpuType.why_cpu() is None
    driver.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15")
    assert GpuType.why_cpu() == "NVIDIA's driver is loaded, but nvidia-smi is not on PATH"
    stand_in("nvidia-smi", printing(A6000))
    assert GpuType.why_cpu() is None


def test_a_machine_without_a_tool(stand_in: StandIn) -> None:
    assert GpuType.detect() is None and GpuType.why_cpu() is None and GpuType.driver_problem() is None
