"""GPU types: built-in values, user-defined types, and detection."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmbx.catalog import hardware
from llmbx.errors import UsageError

PEAKS = {  # dense TFLOP/s: the recipes' tables, and the data sheets of A100 and H200
    "a100": {"bf16": 312},
    "h100": {"bf16": 989, "fp8": 1979},
    "h200": {"bf16": 989, "fp8": 1979},
    "b200": {"bf16": 2250, "fp8": 4500, "nvfp4": 9000},
    "b300": {"bf16": 2250, "fp8": 4500, "nvfp4": 13500},
    "gb200": {"bf16": 2450, "fp8": 4900, "nvfp4": 9800},
    "gb300": {"bf16": 2450, "fp8": 4900, "nvfp4": 14700},
    "cpu": {},
}


def test_the_types_and_their_peaks() -> None:
    known = hardware.builtin()
    assert {name: {d: p.tflops for d, p in found.peaks.items()} for name, found in known.items()} == PEAKS


def test_a_peak_says_its_name_and_source() -> None:
    peak = hardware.peak("h100", "bf16")
    assert peak is not None
    assert (peak.tflops, peak.name) == (989, "H100 SXM dense BF16")
    assert "Grok-1 recipe" in peak.source
    assert all(p.source for found in hardware.builtin().values() for p in found.peaks.values())


@pytest.mark.parametrize(("gpu_type", "dtype"), [("cpu", "bf16"), ("a100", "fp8"), ("h100", "nvfp4"), ("l40s", "bf16")])
def test_an_unknown_peak_is_none_and_never_another_gpus(gpu_type: str, dtype: str) -> None:
    assert hardware.peak(gpu_type, dtype) is None
    assert f"[gpus.{gpu_type}] peaks.{dtype} = TFLOPS" in hardware.how_to_set_peak(gpu_type, dtype)


def test_memory_and_nodes() -> None:
    known = hardware.builtin()
    assert {n: known[n].memory_gb for n in ("gb300", "gb200", "b200", "h100")} == {
        "gb300": 288,
        "gb200": 186,
        "b200": 180,
        "h100": 80,
    }
    assert {n: g.gpus_per_node for n, g in known.items()} == {
        **dict.fromkeys(("a100", "h100", "h200", "b200", "b300"), 8),
        **dict.fromkeys(("gb200", "gb300"), 4),
        "cpu": None,
    }


def test_a_name_is_found_in_any_case_or_suggested() -> None:
    assert hardware.gpu("GB200").name == "gb200"
    with pytest.raises(UsageError, match=r"no GPU type named 'h10' \(did you mean 'h100'\?\); .*\[gpus\.h10\]"):
        hardware.gpu("h10")


@pytest.mark.parametrize(
    ("product", "gpu_type"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100-SXM4-40GB", None),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA B200", "b200"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA GB300", "gb300"),
        ("NVIDIA GeForce RTX 4090", None),
    ],
)
def test_products_are_identified(product: str, gpu_type: str | None) -> None:
    assert hardware.identify(product) == gpu_type


def test_a_user_adds_a_gpu_and_changes_one() -> None:
    gpus = hardware.extend(
        {
            "l40s": {"memory_gb": 48, "gpus_per_node": 4, "match": ["L40S"], "peaks": {"bf16": 362.05}},
            "h100": {"peaks": {"fp32": 67}},
            "cpu": {"peaks": {"bf16": 1.5}, "source": "measured"},
        }
    )
    assert hardware.gpu("l40s", gpus).memory_gb == 48
    assert hardware.identify("NVIDIA L40S", gpus) == "l40s"
    added = hardware.peak("l40s", "bf16", gpus)
    assert added is not None
    assert (added.tflops, added.name, added.source) == (362.05, "L40S dense BF16", "llmbx.toml: [gpus.l40s]")
    kept, own, cpu = (hardware.peak(g, d, gpus) for g, d in (("h100", "bf16"), ("h100", "fp32"), ("cpu", "bf16")))
    assert kept == hardware.peak("h100", "bf16")
    assert own is not None and (own.tflops, own.source) == (67, "llmbx.toml: [gpus.h100]")
    assert cpu is not None and (cpu.tflops, cpu.source) == (1.5, "measured")
    assert gpus["h100"].gpus_per_node == 8
    assert hardware.peak("cpu", "bf16") is None, "the built-in types stay as they are"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"memroy_gb": 1}, r"llmbx\.toml: \[gpus\.x\]: unknown key 'memroy_gb' \(did you mean 'memory_gb'\?\)"),
        ({"peaks": {"bf16": "fast"}}, r"llmbx\.toml: \[gpus\.x\]: at peaks.*: Expected"),
        ({"peaks": {"fp32": 0.0}}, r"\[gpus\.x\]: peaks\.fp32: expected TFLOP/s > 0 \(or no entry\), got 0"),
        ({"peaks": {"fp32": -1.0}}, r"peaks\.fp32: .* got -1"),
        ({"peaks": {"fp32": float("nan")}}, r"peaks\.fp32: .* got nan"),
        ({"peaks": {"fp32": float("inf")}}, r"peaks\.fp32: .* got inf"),
        ({"match": ["("]}, r"\[gpus\.x\]: match: '\(' is not a regular expression"),
    ],
)
def test_an_invalid_table_is_reported(table: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        hardware.extend({"x": table})


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named nvidia-smi, first on PATH, that prints the text of the file `answer` for the expected query."""
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f'#!/bin/sh\n[ "$*" = "--query-gpu=name --format=csv,noheader" ] || exit 9\nexec cat "{tmp_path}/answer"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "answer"


@pytest.mark.parametrize(
    ("answer", "visible", "found"),
    [
        ("NVIDIA H100 80GB HBM3\n" * 8, None, ("h100", 8)),
        ("NVIDIA H100 80GB HBM3\n" * 8, "0,1", ("h100", 2)),
        ("NVIDIA H100 80GB HBM3\n" * 8, "", None),
        ("NVIDIA GB200\n" * 4, None, ("gb200", 4)),
        ("NVIDIA T400\nNVIDIA H200\nNVIDIA H200\n", None, ("h200", 2)),
        ("NVIDIA GeForce RTX 4090\n", None, None),
        ("", None, None),
    ],
)
def test_detection(
    nvidia_smi: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    visible: str | None,
    found: tuple[str, int] | None,
) -> None:
    nvidia_smi.write_text(answer)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert hardware.detect() == found


def test_detection_where_the_driver_fails_or_is_absent(
    nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert hardware.detect() is None, "the program ends with an error: it has no answer to print"
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert hardware.detect() is None
