"""Peak memory that Megatron-LM's functional tests measured, which is read from a folder and not shipped.

The tables name most arguments of a test; `TESTS` has more of them, from the tests' own files. The number of GPUs is the
one whose static memory is nearest to the memory that the test had allocated between steps, which is measured as well.
The last rank writes the memory, so it is that of the last pipeline stage. A test for GB200 has on other GPUs the memory
of the test without it, and other arguments than its file says: those values are left out, as are tests of inference,
of reinforcement learning, of models with other parts (vision, T5, Mamba), and of experts whose number for each token is
not in the table.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from sources import integer, read_csv

from llmbx_prediction.case import Case
from llmbx_prediction.cost import memory
from llmbx_prediction.cost.model import Model
from llmbx_prediction.cost.rates import known

LEAST_GB = 10.0
OTHER = ("inference", "grpo", "mimo", "llava", "t5", "bert", "hybrid", "nemotron", "reruns", "fsdp", "moe/gpt3")

LLAMA, NEMOTRON = 32000, 256000
"""Sizes of the tokenizers' vocabularies."""
TESTS: dict[str, dict[str, int]] = {
    "gpt3_15b_8t_release_sm_gb200": {"vp": 2},
    "gpt3_7b_tp1_pp4": {"vp": 8, "groups": 8, "vocab": 131073},
    "gpt3_7b_tp4_pp1": {"groups": 8, "vocab": 131073},
    "deepseekv3_proxy_flex_tp1pp4": {"vp": 2, "etp": 1, "vocab": 258560},
    "deepseekv3_proxy_flex_tp2pp2": {"etp": 1, "vocab": 258560},
    "mixtral_8x22b_tp2pp8ep8": {"etp": 2, "vocab": LLAMA},
    "mixtral_8x7b_alltoall_tp2pp4ep4": {"etp": 2, "vocab": NEMOTRON},
    "mixtral_8x7b_tp1pp4ep8vpp8": {"vp": 8, "etp": 1, "vocab": LLAMA},
}
"""Arguments that the tables lack, by the beginning of the test's name: model_config.yaml of Megatron-LM's functional
tests. Experts are split over tensor parallelism unless a test says otherwise."""

DEGREES = (("tp", "tensor-model"), ("pp", "pipeline-model"), ("cp", "context"), ("ep", "expert-model"))


def measure(folder: Path) -> None:
    """Print the error of the memory above 10 GB."""
    found = [(cells, one) for cells in read_csv(folder / "megatron_lm_golden_values.csv") if (one := _case(cells))]
    errors: dict[str, list[float]] = {"dense": [], "experts": []}
    inside = {"dense": 0, "experts": 0}
    print(f"\nPeak memory above {LEAST_GB:g} GB, Megatron-LM's functional tests [GB]")
    for cells, case in found:
        estimate = memory.of_stage(case, "last")
        measured, kept = (float(cells[name]) / 1e9 for name in ("mem_max_alloc_bytes", "mem_alloc_bytes"))
        parts = sum(estimate.terms_gb[name] for name in ("weights", "gradients", "optimizer"))
        kind = "experts" if case.model.experts else "dense"
        errors[kind].append(estimate.total_gb / measured - 1)
        inside[kind] += estimate.low_gb <= measured <= estimate.high_gb
        name = "/".join(Path(cells["file"]).parts[-3:-1])
        print(f"  {name[:64]:64} {case.gpus:5} GPUs {measured:7.1f} predicted {estimate.total_gb:7.1f} "
              f"{100 * errors[kind][-1]:+6.1f} %   static {kept:6.1f} {parts:6.1f}")  # fmt: skip
    for kind, found_errors in errors.items():
        sizes = [abs(error) for error in found_errors]
        mean, median = 100 * statistics.mean(sizes), 100 * statistics.median(sizes)
        print(f"  {kind}: {len(sizes)} tests: mean {mean:.1f} %, median {median:.1f} %, "
              f"{100 * inside[kind] / len(sizes):.0f} % within the interval")  # fmt: skip


def _case(cells: dict[str, str]) -> Case | None:
    """The configuration of a test that trains a transformer above 10 GB, else None."""
    peak, numbers = float(cells["mem_max_alloc_bytes"] or 0) / 1e9, {k: integer(v) for k, v in cells.items()}
    name = cells["file"].split("test_cases/")[-1]
    layers, hidden, heads = (numbers[key] for key in ("num-layers", "hidden-size", "num-attention-heads"))
    copied = name.split("/")[1].endswith("gb200") and not cells["platform"].endswith("gb200")
    if peak < LEAST_GB or copied or any(word in name for word in OTHER) or not layers or not hidden or not heads:
        return None
    more = _more(name)
    degrees = {short: numbers[f"{long}-parallel-size"] or 1 for short, long in DEGREES}
    gpu = next((gpu for gpu in known() if cells["platform"].endswith(gpu)), "h100")
    case = Case(
        model=_model(name, cells, layers, hidden, heads, more), gpu_type=gpu, gpus=8,
        dtype="fp8" if cells["fp8-format"] else "bf16", gbs=numbers["global-batch-size"] or 1024,
        mbs=numbers["micro-batch-size"] or 1,
        seq=numbers["seq-length"] or 4096, vp=more.get("vp", 1), etp=more.get("etp", 1),
        recompute="selective" if cells["recompute-granularity"] == "selective" else "none",
        sequence_parallel=cells["sequence-parallel"] == "True", stack="megatron-lm", **degrees,
    )  # fmt: skip
    least = max(8, case.tp * case.pp * case.cp, case.pp * case.ep * case.etp)
    tried = [case.replace(gpus=least * 2**power) for power in range(6)]
    kept = float(cells["mem_alloc_bytes"]) / 1e9
    return min(tried, key=lambda one: abs(_static(one) - kept))


def _more(name: str) -> dict[str, int]:
    test = name.split("/")[1]
    return next((more for start, more in TESTS.items() if test.startswith(start)), {})


def _static(case: Case) -> float:
    found = memory.of_stage(case, "last")
    return sum(found.terms_gb[name] for name in ("weights", "gradients", "optimizer"))


def _model(name: str, cells: dict[str, str], layers: int, hidden: int, heads: int, more: dict[str, int]) -> Model:
    """The model of a test: its columns, and what its name says (Mixtral, DeepSeek-V3, 15B with squared ReLU)."""
    ffn, experts = integer(cells["ffn-hidden-size"]) or 4 * hidden, integer(cells["num-experts"]) or 0
    if "deepseekv3_proxy" in name:
        return Model(layers=layers, hidden=hidden, heads=heads, ffn=ffn, vocab=more["vocab"], experts=experts, top_k=8,
                     moe_ffn=2048, shared_ffn=2048, dense_layers=3, kv_rank=512, q_rank=1536, mtp_layers=1)  # fmt: skip
    if "mixtral" in name:
        return Model(layers=layers, hidden=hidden, heads=heads, groups=8, vocab=more["vocab"], experts=experts,
                     top_k=2, moe_ffn=ffn)  # fmt: skip
    groups, vocabulary = (8, NEMOTRON) if "15b" in name else (more.get("groups", heads), more.get("vocab", 51200))
    if experts:
        return Model(layers=layers, hidden=hidden, heads=heads, groups=groups, vocab=vocabulary, experts=experts,
                     top_k=2, moe_ffn=ffn, gated=False)  # fmt: skip
    return Model(layers=layers, hidden=hidden, heads=heads, groups=groups, ffn=ffn, vocab=vocabulary, gated=False)
