"""GPU types: built-in values, user-defined types, and detection."""

from __future__ import annotations

import pytest

from llmbx.catalog.hardware import GpuType
from llmbx.errors import UsageError

PEAKS = {  # dense TFLOP/s of the data sheets, per GPU: figures with sparsity divided by 2, of a system by its GPUs
    "a100": {"bf16": 312},
    "a100-40": {"bf16": 312},
    "a800": {"bf16": 312},
    "a10": {"bf16": 125, "fp16": 125},
    "h100-pcie": {"bf16": 756, "fp8": 1513},
    "h100-nvl": {"bf16": 1671 / 2, "fp8": 3341 / 2},
    "h800": {"bf16": 989},
    "h20": {"bf16": 148},
    "h200-nvl": {"bf16": 1671 / 2, "fp8": 3341 / 2},
    "gh200": {"bf16": 989, "fp8": 1979},
    "vr200": {},
    "l4": {"bf16": 121, "fp16": 121, "fp8": 485 / 2},
    "rtx4090": {"bf16": 165.2, "fp16": 165.2, "fp8": 330.3},
    "rtx5090": {"bf16": 209.5, "fp16": 209.5, "fp8": 419, "nvfp4": 1676},
    "rtx6000ada": {"bf16": 364.2, "fp16": 364.2, "fp8": 728.5},
    "mi350x": {"bf16": 2306.9, "fp16": 2306.9, "fp8": 4613.7, "mxfp4": 9227.5},
    "h100": {"bf16": 989, "fp8": 1979},
    "h200": {"bf16": 989, "fp8": 1979},
    "b200": {"bf16": 4500 / 2, "fp8": 9000 / 2, "mxfp8": 9000 / 2, "nvfp4": 18000 / 2},
    "b300": {"bf16": 36000 / 8 / 2, "fp8": 72000 / 8 / 2, "mxfp8": 72000 / 8 / 2, "nvfp4": 108000 / 8},
    "gb200": {"bf16": 5000 / 2, "fp8": 10000 / 2, "mxfp8": 10000 / 2, "nvfp4": 20000 / 2},
    "gb300": {"bf16": 360000 / 72 / 2, "fp8": 720000 / 72 / 2, "mxfp8": 720000 / 72 / 2, "nvfp4": 1080000 / 72},
    "l40s": {"bf16": 362.05, "fp16": 362.05, "fp8": 733},
    "rtxpro6000": {"bf16": 503.8, "fp16": 503.8, "fp8": 1007.6, "nvfp4": 2015.2},
    "mi300x": {"bf16": 1307.4, "fp16": 1307.4, "fp8": 2614.9},
    "mi325x": {"bf16": 1307.4, "fp16": 1307.4, "fp8": 2614.9},
    "mi355x": {"bf16": 2516.6, "fp16": 2516.6, "fp8": 5033.2, "mxfp4": 10066.3},
    "tpu-v5p": {"bf16": 459},
    "tpu-v6e": {"bf16": 918},
    "cpu": {},
}

UNITS = {  # units (SM, CU), their clock in GHz, dense BF16 FLOPs per clock and unit: from the architecture papers
    "h100": (132, 1.83, 4096),
    "a100-40": (108, 1.41, 2048),
    "a10": (72, 1.695, 1024),
    "h100-pcie": (114, 1.62, 4096),
    "l4": (58, 2.04, 1024),
    "rtx4090": (128, 2.52, 512),
    "rtx5090": (170, 2.407, 512),
    "rtx6000ada": (142, 2.505, 1024),
    "mi350x": (256, 2.2, 4096),
    "l40s": (142, 2.52, 1024),
    "rtxpro6000": (188, 2.617, 1024),
    "mi300x": (304, 2.1, 2048),
    "mi325x": (304, 2.1, 2048),
    "mi355x": (256, 2.4, 4096),
}


def test_the_types_and_their_peaks() -> None:
    known = GpuType.builtin()
    assert {name: {d: p.tflops for d, p in found.peaks.items()} for name, found in known.items()} == PEAKS


@pytest.mark.parametrize("name", UNITS)
def test_a_dense_peak_is_that_of_the_chips_units(name: str) -> None:
    """A figure with sparsity would be twice as high. The L40S data sheet rounds its clock, hence 2 %."""
    units, clock, flops = UNITS[name]
    peak = GpuType.peak_of(name, "bf16")
    assert peak is not None and peak.tflops == pytest.approx(units * clock * flops / 1e3, rel=0.02)


VENDORS_CODE = {"a800", "h800", "h20"}
"""GPU types without a public data sheet: their peaks are those that the vendor's own program divides by."""


def test_every_peak_has_its_data_sheet_as_source() -> None:
    """The recipes print 2 % less for GB200 and GB300: that figure belongs to their rows, not to the GPU type."""
    for gpu in GpuType.builtin().values():
        for peak in gpu.peaks.values():
            if gpu.name in VENDORS_CODE:
                assert peak.source.startswith("NVIDIA NeMo AutoModel, ")
                continue
            assert "data sheet" in peak.source or "white paper" in peak.source or "documentation" in peak.source
            assert "recipe" not in peak.source and "README" not in peak.source


def test_a_peak_says_its_name_and_source() -> None:
    peak = GpuType.peak_of("h100", "bf16")
    assert peak is not None
    assert (peak.tflops, peak.name) == (989, "H100 SXM dense BF16")
    assert "NVIDIA H100 data sheet" in peak.source


@pytest.mark.parametrize(
    ("gpu_type", "dtype"), [("cpu", "bf16"), ("a100", "fp8"), ("h100", "nvfp4"), ("h20", "fp8"), ("vr200", "bf16")]
)
def test_an_unknown_peak_is_none_and_never_another_gpus(gpu_type: str, dtype: str) -> None:
    assert GpuType.peak_of(gpu_type, dtype) is None
    assert f"[gpus.{gpu_type}] peaks.{dtype} = TFLOPS" in GpuType.how_to_set_peak(gpu_type, dtype)


def test_memory_and_nodes() -> None:
    known = GpuType.builtin()
    assert (known["b300"].memory_mib, known["b300"].memory_gb) == (275040, pytest.approx(288.4, abs=0.01))
    assert known["gb300"].memory_gb == pytest.approx(298.0, abs=0.1), "not 288 GiB, 309 GB"
    assert known["h100"].memory_gb == pytest.approx(85.5, abs=0.1)
    assert (known["mi300x"].memory_mib, known["mi300x"].memory_gb) == (None, 192)
    assert known["vr200"].memory_gb is None
    sizes = {name: gpu.gpus_per_node for name, gpu in known.items()}
    assert {sizes[name] for name in ("a100", "h100", "h200", "h20", "b200", "b300", "mi300x", "mi350x")} == {8}
    assert {sizes[name] for name in ("gb200", "gb300", "tpu-v5p")} == {4}
    assert {sizes[name] for name in ("l40s", "h100-pcie", "rtx4090", "cpu")} == {None}


@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        ("a100", ["bf16"]), ("l40s", ["bf16", "fp8"]), ("h100", ["bf16", "fp8"]),
        ("b200", ["bf16", "fp8", "mxfp8", "nvfp4"]), ("rtx5090", ["bf16", "fp8"]),
    ],
)  # fmt: skip
def test_the_dtypes_of_a_gpu_follow_from_its_compute_capability(name: str, dtypes: list[str]) -> None:
    gpu = GpuType.named(name)
    assert [dtype for dtype in ("bf16", "fp8", "mxfp8", "nvfp4") if gpu.computes(dtype)] == dtypes


def test_every_nvidia_gpu_has_its_memory_and_compute_capability() -> None:
    others = {"mi300x", "mi325x", "mi350x", "mi355x", "tpu-v5p", "tpu-v6e", "cpu"}
    for name, gpu in GpuType.builtin().items():
        assert (gpu.compute_capability is None) == (name in others), name
        assert gpu.memory_mib or name in others | {"vr200"}, name


def test_a_name_is_found_in_any_case_or_suggested() -> None:
    assert GpuType.named("GB200").name == "gb200"
    with pytest.raises(UsageError, match=r"no GPU type named 'hh100' \(did you mean 'h100'\?\); .*\[gpus\.hh100\]"):
        GpuType.named("hh100")


@pytest.mark.parametrize(
    ("product", "gpu_type"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100-SXM4-40GB", "a100-40"),
        ("NVIDIA A100-PCIE-40GB", "a100-40"),
        ("NVIDIA A100 80GB PCIe", "a100"),
        ("NVIDIA A800-SXM4-80GB", "a800"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A10G", None),
        ("NVIDIA H20", "h20"),
        ("NVIDIA H800", "h800"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"),
        ("NVIDIA GeForce RTX 5090", "rtx5090"),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", None),
        ("NVIDIA GB10", None),
        ("AMD Instinct MI300X VF", "mi300x"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA GB300", "gb300"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L40", None),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtxpro6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", None),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", None),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
    ],
)
def test_products_are_identified(product: str, gpu_type: str | None) -> None:
    assert GpuType.identify(product) == gpu_type


def test_a_user_adds_a_gpu_and_changes_one() -> None:
    gpus = GpuType.extend(
        {
            "a40": {"memory_gb": 48, "gpus_per_node": 4, "match": ["A40"], "peaks": {"bf16": 149.7}},
            "h100": {"peaks": {"fp32": 67}},
            "cpu": {"peaks": {"bf16": 1.5}, "source": "measured"},
        }
    )
    assert GpuType.named("a40", gpus).memory_gb == 48
    assert GpuType.identify("NVIDIA A40", gpus) == "a40"
    added = GpuType.peak_of("a40", "bf16", gpus)
    assert added is not None
    assert (added.tflops, added.name, added.source) == (149.7, "A40 dense BF16", "llmbx.toml: [gpus.a40]")
    kept, own, cpu = (GpuType.peak_of(g, d, gpus) for g, d in (("h100", "bf16"), ("h100", "fp32"), ("cpu", "bf16")))
    assert kept == GpuType.peak_of("h100", "bf16")
    assert own is not None and (own.tflops, own.source) == (67, "llmbx.toml: [gpus.h100]")
    assert cpu is not None and (cpu.tflops, cpu.source) == (1.5, "measured")
    assert gpus["h100"].gpus_per_node == 8
    assert GpuType.peak_of("cpu", "bf16") is None, "the built-in types stay as they are"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"memroy_gb": 1}, r"llmbx\.toml: \[gpus\.x\]: unknown key 'memroy_gb' \(did you mean 'memory_gb'\?\)"),
        ({"peaks": {"bf16": "fast"}}, r"llmbx\.toml: \[gpus\.x\]: at peaks.*: expected a number"),
        ({"peaks": {"fp32": 0.0}}, r"\[gpus\.x\]: peaks\.fp32: expected TFLOP/s > 0 \(or no entry\), got 0"),
        ({"memory_gb": 0.0}, r"\[gpus\.x\]: memory_gb: expected a number > 0 \(or no entry\), got 0"),
        ({"memory_gb": float("nan")}, r"\[gpus\.x\]: memory_gb: expected a number > 0 \(or no entry\), got nan"),
        ({"memory_mib": -5}, r"\[gpus\.x\]: memory_mib: expected a number > 0 \(or no entry\), got -5"),
        ({"compute_capability": "9"}, r"\[gpus\.x\]: compute_capability: expected e\.g\. \"9\.0\", got \"9\""),
        ({"peaks": {"fp32": -1.0}}, r"peaks\.fp32: .* got -1"),
        ({"peaks": {"fp32": float("nan")}}, r"peaks\.fp32: .* got nan"),
        ({"peaks": {"fp32": float("inf")}}, r"peaks\.fp32: .* got inf"),
        ({"match": ["("]}, r"\[gpus\.x\]: match: '\(' is not a regular expression"),
    ],
)
def test_an_invalid_table_is_reported(table: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        GpuType.extend({"x": table})
