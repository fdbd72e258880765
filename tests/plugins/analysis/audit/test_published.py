"""The audit of the reference files of this distribution, compared with an independent computation."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from llmbx.catalog.workloads import rows_of
from llmbx.config.profiles import Config
from llmbx.plugins.manager import Plugins
from llmbx_analysis.audit import Audit, audit_workloads, disputes_of

# Layers, hidden size, FFN, heads, query groups, vocabulary, experts per token, whether attention is counted in full.
# From the notes of the recipes; for Llama 3.1 70B and 405B from the models themselves.
SHAPES = {
    "8b": (32, 4096, 14336, 32, 8, 128256, 1, True),
    "70b": (80, 8192, 28672, 64, 8, 128256, 1, True),
    "405b": (126, 16384, 53248, 128, 8, 128256, 1, True),
    "400b": (48, 5120, 16384, 40, 8, 202048, 1, False),
    "314b": (64, 6144, 32768, 48, 8, 128256, 2, False),
    "llama2 7b": (32, 4096, 11008, 32, 32, 32000, 1, True),
    "llama2 70b": (80, 8192, 28672, 64, 8, 32000, 1, True),
}
PROXY_LAYERS = {32: 8, 64: 30, 128: 62}
PEAKS = {("h100", "bf16"): 989e12, ("h100", "fp8"): 1979e12, ("gb200", "bf16"): 2450e12, ("gb200", "fp8"): 4900e12}

DISPUTED = {
    *(("llama3.1", "405b-proxy", dtype, "h100", gpus, "mfu") for dtype in ("bf16", "fp8") for gpus in (32, 64, 128)),
    *(("llama3.1", "405b", dtype, "h100", gpus, "mfu") for dtype in ("bf16", "fp8") for gpus in (512, 1024, 2048)),
    ("llama4", "400b", "bf16", "gb200", 128, "mfu"),
    *(("grok1", "314b", dtype, "gb200", 512, field)
      for dtype in ("bf16", "fp8") for field in ("tokens_per_s", "days_per_1t_tokens")),
    # What Megatron-Bridge counts otherwise: gpt-oss until release 26.04.01, the width of Nano's Mamba layers, and the
    # router and the prediction layers of Super.
    *(("gpt-oss", "120b", "bf16", gpu, 64, "tflops_per_gpu") for gpu in ("h100", "b200", "b300", "gb300")),
    *(("nemotron3", "30b-a3b", "mxfp8", gpu, 8, "tflops_per_gpu") for gpu in ("b200", "b300", "gb200", "gb300")),
    ("nemotron3", "30b-a3b", "fp8", "h100", 16, "tflops_per_gpu"),
    ("nemotron3", "120b-a12b", "mxfp8", "gb300", 64, "tflops_per_gpu"),
    ("nemotron3", "120b-a12b", "bf16", "gb200", 64, "tflops_per_gpu"),
}  # fmt: skip

BY_LAYER = ("deepseek-v3", "qwen3", "gpt-oss", "nemotron3")
"""Models without a formula: tests/integration/test_nemo_flops.py counts their operations."""


@pytest.fixture(scope="module")
def found() -> Audit:
    plugins = _shipped()
    return audit_workloads(plugins.workloads, plugins, Config())


def _shipped() -> Plugins:
    from importlib import import_module

    from .conftest import manager

    return manager(nemo=import_module("llmbx_nemo.plugin"), maxtext=import_module("llmbx_maxtext.plugin"))


def sample_flops(workload: str, size: str, gpus: int, sequence: int) -> float:
    proxy = size == "405b-proxy"
    name = f"{workload} {size}" if workload == "llama2" else "405b" if proxy else size
    layers, hidden, ffn, heads, groups, vocabulary, experts, full = SHAPES[name]
    layers = PROXY_LAYERS[gpus] if proxy else layers
    seen = sequence if full else sequence / 2
    attention = 12 * layers * hidden**2 * (1 + groups / heads + seen / hidden)
    return sequence * (attention + 18 * layers * ffn * hidden * experts + 6 * vocabulary * hidden)


def test_every_cell_is_recomputed_and_exactly_these_are_disputed(found: Audit) -> None:
    assert found.cells == 243
    assert {(d.workload, d.size, d.dtype, d.gpu_type, d.gpus, d.field) for d in found.disputed} == DISPUTED
    other = [d for d in found.disputed if "release 25.05" in d.source]  # the same scale as in the recipe's tables
    assert len(found.disputed) == len(DISPUTED) + len(other)
    assert {(d.dtype, d.field) for d in other} == {("bf16", "mfu"), ("fp8", "mfu")}
    unexplained = [(d.workload, d.size, d.gpu_type) for d in found.disputed if d.reason == "unexplained"]
    assert unexplained == [("nemotron3", "120b-a12b", "gb300")]


def test_the_recomputed_figures_are_those_of_plain_arithmetic(found: Audit) -> None:
    """From the published step times and batch sizes and the shapes above, without the code of the audit."""
    disputed = {(d.workload, d.source, d.size, d.dtype, d.gpu_type, d.gpus, d.field): d for d in found.disputed}
    cells = 0
    for workload in (workload for workload in _shipped().workloads if workload.name not in BY_LAYER):
        for r in (r for r in workload.references if r.kind != "example" and r.step_time_s):
            assert r.step_time_s and r.global_batch_size
            sequence = 4096 if workload.name == "llama2" else 8192
            rate = sequence * r.global_batch_size / r.step_time_s
            flops = sample_flops(workload.name, r.size, r.gpus, sequence)
            peak = PEAKS.get((r.gpu_type, r.dtype), math.nan)
            mfu = r.global_batch_size * flops / r.step_time_s / r.gpus / peak
            # The performance summary of the Megatron-Bridge recipe counts causal attention, MaxText's on A3 all of it.
            causal = sample_flops(workload.name, r.size, r.gpus, sequence // 2) * 2 if r.tflops_per_gpu else math.nan
            counted = flops if r.recipe == "a3" else causal
            tflops = r.global_batch_size * counted / r.step_time_s / r.gpus / 1e12
            values = {"tokens_per_s": rate, "mfu": mfu, "days_per_1t_tokens": 1e12 / rate / 86400}
            for field, value in {**values, "tflops_per_gpu": tflops}.items():
                published = getattr(r, field)
                if published is None:
                    continue
                cells += 1
                dispute = disputed.pop((workload.name, r.source, r.size, r.dtype, r.gpu_type, r.gpus, field), None)
                inexact = r.step_time_rounding_s / r.step_time_s if r.step_time_from and r.step_time_rounding_s else 0
                assert (dispute is not None) == (abs(published / value - 1) > 0.006 + inexact)
                if dispute is not None:
                    assert dispute.recomputed == pytest.approx(value)
                    assert dispute.published == published
                    assert dispute.difference_percent == pytest.approx(100 * (published / value - 1), rel=1e-4)
    assert (cells, {key for key in disputed if key[0] not in BY_LAYER}) == (211, set())


def test_configuration_rows_that_contradict_upstream_are_found(found: Audit) -> None:
    """VP 12 with PP 1 in Maverick's H100 table; in that of Llama 3.1 RL of 70b and CG of 8b, which no launch sets."""
    assert {(r.workload, r.dtype, r.gpu_type, r.gpus, r.field, r.published, r.recomputed) for r in found.rows} == {
        ("llama4", "bf16", "h100", 512, "vp", 12, 1),
        ("llama4", "fp8", "h100", 512, "vp", 12, 1),
        *(("llama3.1", "fp8", "h100", gpus, "rl", 5, 0) for gpus in (64, 128, 256, 512, 1024)),
        *(("llama3.1", "fp8", "h100", gpus, "cg", True, False) for gpus in (8, 16, 32, 64, 128)),
    }
    because = {"vp": "PP is 1", "rl": "launch files set only for B200", "cg": "launch files switch them off"}
    assert all(r.reason and because[r.field] in r.reason for r in found.rows)


def test_dp_ga_and_the_layer_split_were_checked() -> None:
    """Nearly every row prints DP and GA, so a result without findings is meaningful."""
    printed = Counter(
        key for w in _shipped().workloads for _, row in rows_of(w) for key in row.printed if row.size != "mini"
    )
    assert printed["dp"] >= 20 and printed["ga"] >= 20


EXAMPLES = [
    # workload, kind, field, published, recomputed, and a part of the reason that the file states
    ("llama3.1", "configuration", "window_first", 34, 35, "35-44"),
    ("llama3.1", "formula", "tflops_per_gpu", 1636.8, 1800.6, None),
    ("llama3.1", "table", "step_time_s", 12.39, 9.33, None),
    ("llama3.1", "formula", "model_flops", 2.17e16, 2.1507e16, None),
    ("llama4", "peak", "peak_tflops", 989, 2450, None),
    ("llama4", "formula", "mfu", 0.1871, 0.3743, "FP8 peak"),
    ("llama3.1", "peak", "peak_tflops", 4900, 5000, None),
    ("llama4", "peak", "peak_tflops", 2450, 2500, None),
    ("llama4", "peak", "peak_tflops", 4900, 5000, None),
    ("grok1", "peak", "peak_tflops", 2450, 2500, None),
    ("grok1", "peak", "peak_tflops", 4900, 5000, None),
    ("llama4", "arithmetic", "equation", 1077749, 1078088.7, "7.7834 s"),
    ("llama4", "arithmetic", "Embedding flops", 50665495805952, 50847044075520, "0.4096"),
    ("llama4", "arithmetic", "model flops", 678702806466560, 677671977615360, "summands"),
    ("llama4", "arithmetic", "equation", 891792891914752, 891791891914752, "digit"),
    ("llama4", "table", "step_time_s", 3.685, 3.855, None),
    ("llama4", "formula", "tflops_per_gpu", 527.78, 484.1, None),
    ("grok1", "peak", "peak_tflops", 49, 4900, None),
    ("grok1", "table", "global_batch_size", 4096, 1024, None),
    ("grok1", "table", "step_time_s", 24, 15.933, None),
    ("grok1", "table", "step_time_s", 6.631, 5.298, None),
    ("grok1", "formula", "tflops_per_gpu", 1192.94, 1157.97, None),
    ("llama2", "table", "step_time_s", 7.908, 6.999, None),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e[0]}-{e[2]}-{e[3]}")
def test_wrong_worked_examples_are_found(found: Audit, example: tuple[str, str, str, float, float, str | None]) -> None:
    workload, kind, field, published, recomputed, reason = example
    match = next(
        e for e in found.examples if (e.workload, e.kind, e.field, e.published) == (workload, kind, field, published)
    )
    assert match.recomputed == pytest.approx(recomputed, rel=1e-4)
    assert (reason or "unexplained") in match.reason


def test_the_other_examples_are_correct(found: Audit) -> None:
    """Attention and MLP FLOPs of Maverick (wrong last digits), an MFU listed twice, two of FP8 by the BF16 peak."""
    listed = {(e[0], e[2], e[3]) for e in EXAMPLES}
    rest = {(e.workload, e.field, e.published) for e in found.examples} - listed
    assert rest == {
        ("llama4", "Attention flops", 247390116864000),
        ("llama4", "MLP flops", 593736279244800),
        ("llama3.1", "mfu", 0.334),
        ("maxtext-llama3.1", "mfu", 0.6737),
        ("maxtext-llama3.1", "mfu", 0.6796),
    }


def test_rows_marked_as_disputed_are_found_by_the_audit(found: Audit) -> None:
    computed = {(d.workload, d.source, d.gpus) for d in found.disputed}
    computed |= {(e.workload, e.source, e.gpus) for e in found.examples if e.field == "mfu" and e.gpus}
    marked = {(w.name, r.source, r.gpus) for w in _shipped().workloads for r in w.references if r.disputed}
    assert marked <= computed


def test_a_single_row_can_be_audited() -> None:
    plugins = _shipped()
    workload = plugins.workload("grok1")
    by_scale = {r.gpus: r for r in workload.references if r.source == "Grok-1 recipe, table GB200 FP8"}
    found = disputes_of(by_scale[512], workload, plugins, Config())
    assert {d.field for d in found} == {"tokens_per_s", "days_per_1t_tokens"}
    assert disputes_of(by_scale[256], workload, plugins, Config()) == []


def test_a_wider_tolerance_disputes_less() -> None:
    plugins = _shipped()
    assert len(audit_workloads(plugins.workloads, plugins, Config(), tolerance=0.02).disputed) == 14
    assert len(audit_workloads(plugins.workloads, plugins, Config(), tolerance=0.0).disputed) > 100
