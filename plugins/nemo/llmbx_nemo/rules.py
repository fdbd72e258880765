"""Validation rules of Megatron and of the recipes. All violations are reported at once.

Sources: the checks of Megatron-Core 0.16 (`transformer_config.py`, `parallel_state.py`, `schedules.py`); the recipes.
"""

from __future__ import annotations

from llmbx.api import (
    Finding,
    GpuType,
    RunSpec,
    emulated_bf16,
)

from . import performance_rules
from .performance_rules import stages
from .published import is_function, splits
from .settings import settings
from .suggestions import divisors, either, multiples_around

HUB = "https://huggingface.co/"
EMULATED_BF16 = "2 to 5"
"""Step time with emulated BF16 over that with FP32: 2.5 for Grok-1's mini, 2.9 for Llama 4's and 5.3 for Llama 3.1's
(torch 2.13 on AVX2, measured with benchmarks/first_run.py)."""


def findings(spec: RunSpec) -> list[Finding]:
    """Return a finding for every rule that the specification violates, each with a fix."""
    p = spec.parallelism
    if min(p.tp, p.pp, p.cp, p.ep or 1, p.etp or 1, p.vp or 1, spec.model.layers) < 1:
        return []
    return [
        *_shape(spec),
        *performance_rules.findings(spec),
        *_split(spec),
        *_microbatches(spec),
        *_expert_groups(spec),
        *_sequence(spec),
        *_memory(spec),
        *_fsdp(spec),
        *_precision(spec),
        *emulated_bf16(spec, EMULATED_BF16),
        *_without_gpu(spec),
        *_checkpoint(spec),
        *_tokenizer(spec),
        *_profile(spec),
    ]


FIXED = (
    "hidden_size", "ffn_hidden_size", "heads", "query_groups", "experts", "experts_per_token", "moe_ffn_hidden_size",
    "shared_ffn_hidden_size",
)  # fmt: skip

"""Sizes that follow from one another in a model of the hub, whose configuration llmbx does not take apart."""


def _shape(spec: RunSpec) -> list[Finding]:
    """Check that the sizes of a model whose architecture comes from the hub are the catalog's, but for its length."""
    if not (is_function(spec) or "hub" in spec.architecture):
        return []
    changed = [key for key in FIXED if spec.origins.get(key, "").startswith("--")]
    findings = [
        Finding(rule="shape", problem=f"{key} of {spec.workload} cannot be changed", fix=f"leave --set {key} out")
        for key in changed
    ]
    model, least = spec.model, (spec.model.dense_layers or 0) + 1
    if model.ssm_layers and spec.origins.get("layers", "").startswith("--"):
        problem = f"{spec.workload} has its layers by a pattern"
        findings.append(Finding(rule="layers", problem=problem, fix="leave --set layers out"))
    elif model.layers < least:
        problem = f"{spec.workload} has {least - 1} dense layers, and at least one with experts"
        findings.append(Finding(rule="layers", problem=problem, fix=f"use --set layers=N with N >= {least}"))
    return findings


def counts_ends(layers: int, parts: int) -> bool | None:
    """Return whether embedding and loss must count as one layer each to split `layers` into equal `parts`.

    False if the layers alone split evenly, True if they do with embedding and loss (126 + 2 into 64), None if neither.
    """
    if layers % parts == 0:
        return False
    return True if (layers + 2) % parts == 0 else None


def _split(spec: RunSpec) -> list[Finding]:
    """Check that the layers split into stages. Prediction layers or a table of splits mean a layout of its own."""
    pp, vp, layers = spec.parallelism.pp, spec.parallelism.vp or 1, spec.model.layers
    parts = stages(pp, vp)
    if counts_ends(layers, parts) is not None or spec.model.mtp_layers or splits(spec):
        return []
    problem = (
        f"neither {layers} nor {layers + 2} layers (with embedding and loss) split into PP {pp} x VP {vp} = {parts}"
    )
    vps = [n for n in range(1, layers + 3) if counts_ends(layers, pp * n) is not None]
    pps = [
        n
        for n in divisors(max(1, spec.gpus // (spec.parallelism.tp * spec.parallelism.cp)))
        if n <= layers + 2 and counts_ends(layers, stages(n, vp)) is not None
    ]
    fix = either(vps, "--set vp=") if vps else either([n for n in pps if vp == 1 or n > 1], "--set pp=")
    return [Finding(rule="layers", problem=problem, fix=f"use {fix}")]


def _microbatches(spec: RunSpec) -> list[Finding]:
    """Check that interleaved stages (VP above 1) get a number of micro-batches that is divisible by PP."""
    p, accumulation = spec.parallelism, spec.gradient_accumulation
    if p.pp == 1 or (p.vp or 1) == 1 or accumulation % p.pp == 0:
        return []
    unit = spec.micro_batch_size * p.dp * p.pp
    right = multiples_around(spec.global_batch_size, unit)
    problem = f"VP {p.vp} needs a multiple of PP {p.pp} micro-batches per step, got {accumulation}"
    return [Finding(rule="microbatches", problem=problem, fix=f"use {either(right, '--set gbs=')}, or --set vp=1")]


def _expert_groups(spec: RunSpec) -> list[Finding]:
    """Check that EP x ETP divides the ranks of a pipeline stage; ETP defaults to TP."""
    p, model = spec.parallelism, spec.model
    if model.experts is None or spec.gpus % p.pp:
        return []
    ep, etp, ranks = p.ep or 1, p.etp or p.tp, spec.gpus // p.pp
    findings = []
    if ranks % (ep * etp):
        right = [n for n in divisors(model.experts) if ranks % (n * etp) == 0]
        problem = f"EP {ep} x ETP {etp} = {ep * etp} does not divide the {ranks} GPUs of a pipeline stage"
        fix = f"use {either(right, '--set ep=')}" if right else f"use {either(divisors(ranks), '--set etp=')}"
        findings.append(Finding(rule="expert_groups", problem=problem, fix=fix))
    width = model.moe_ffn_hidden_size or model.ffn_hidden_size
    if width % etp:
        problem = f"ETP {etp} does not divide the expert FFN size of {width}"
        findings.append(Finding(rule="etp", problem=problem, fix="use --set etp=1"))
    return findings


def _sequence(spec: RunSpec) -> list[Finding]:
    """Check that the sequence can be sharded.

    Context parallelism splits it into two parts per rank; TP above 1 shards it too (sequence parallelism).
    """
    p, length = spec.parallelism, spec.model.sequence_length
    parts = (2 * p.cp if p.cp > 1 else 1) * p.tp
    if length % parts == 0:
        return []
    right = multiples_around(length, parts)
    problem = f"a sequence of {length} tokens does not split into {parts} parts (TP {p.tp}, CP {p.cp})"
    return [
        Finding(
            rule="sequence",
            problem=problem,
            fix=f"use {either(right, '--set seq=')}, or a smaller tp or cp",
        )
    ]


def _memory(spec: RunSpec) -> list[Finding]:
    layers, recomputed, offloaded = spec.model.layers, spec.recompute_layers, spec.offload_layers
    findings = []
    if recomputed > layers:
        problem = f"cannot recompute {recomputed} layers: the model has {layers}"
        findings.append(Finding(rule="rl", problem=problem, fix=f"use --set rl=N with N at most {layers}"))
    if offloaded >= layers:
        problem = f"cannot offload {offloaded} layers: at least one of {layers} must stay on the GPU"
        findings.append(Finding(rule="ol", problem=problem, fix=f"use --set ol=N with N at most {layers - 1}"))
    if offloaded and spec.parallelism.pp > 1:
        problem = f"offloaded layers (OL {offloaded}) cannot be combined with a pipeline (PP {spec.parallelism.pp})"
        findings.append(Finding(rule="ol", problem=problem, fix="use --set ol=0 or --set pp=1"))
    if offloaded and recomputed:
        problem = f"offloaded layers (OL {offloaded}) cannot be combined with recomputed layers (RL {recomputed})"
        findings.append(Finding(rule="ol", problem=problem, fix="use --set ol=0 or --set rl=0"))
    if spec.cuda_graphs and not is_function(spec):
        for rule, number, what in (("ol", offloaded, "offloaded"), ("rl", recomputed, "recomputed")):
            if number:
                problem = f"{what} layers ({rule.upper()} {number}) cannot be combined with CUDA graphs"
                findings.append(Finding(rule=rule, problem=problem, fix=f"use --set {rule}=0 or --set cg=false"))
    return findings


def _fsdp(spec: RunSpec) -> list[Finding]:
    """Megatron-FSDP works with TP, EP and CP, by its documentation (NVIDIA/Megatron-LM issue 1455), not with PP."""
    if not (spec.parallelism.fsdp and spec.parallelism.pp > 1):
        return []
    problem = f"FSDP cannot be combined with PP {spec.parallelism.pp}"
    return [Finding(rule="fsdp", problem=problem, fix="use --set fsdp=false or --set pp=1")]


def _precision(spec: RunSpec) -> list[Finding]:
    chosen = settings(spec).fp8_recipe
    if chosen != "cs" and spec.dtype not in ("bf16", "fp32") and is_function(spec):
        problem = f"recipe {spec.recipe} has its FP8 scaling by the dtype, not by fp8_recipe={chosen}"
        return [Finding(rule="fp8_recipe", problem=problem, fix="use --dtype mxfp8 or fp8, and leave fp8_recipe out")]
    gpu = GpuType.builtin().get(spec.gpu_type)
    if spec.dtype == "fp8" and settings(spec).fp8_recipe == "mx" and gpu and not gpu.computes("mxfp8"):
        problem = f"MXFP8 (fp8_recipe mx) needs a Blackwell GPU, not {spec.gpu_type}"
        return [Finding(rule="fp8_recipe", problem=problem, fix="use --set fp8_recipe=cs")]
    return []


def _without_gpu(spec: RunSpec) -> list[Finding]:
    """Check for features that Megatron's torch layers, which CPU runs use, do not support."""
    if spec.gpu_type != "cpu":
        return []
    p = spec.parallelism
    wants = (
        ("cp", p.cp > 1, "context parallelism", "use --set cp=1"),
        ("fsdp", bool(p.fsdp), "FSDP", "use --set fsdp=false"),
        ("cg", spec.cuda_graphs, "CUDA graphs", "use --set cg=false"),
        ("ol", spec.offload_layers > 0, "layer offloading", "use --set ol=0"),
        ("tp", p.tp > 1 and spec.model.experts is not None, "tensor parallelism of experts", "use --set tp=1"),
    )
    return [
        Finding(rule=rule, problem=f"CPU runs do not support {what}", fix=fix)
        for rule, is_set, what, fix in wants
        if is_set
    ]


def _checkpoint(spec: RunSpec) -> list[Finding]:
    """Check that the recipe supports saving and loading checkpoints at this scale. A mini supports it at any scale."""
    checkpoint, facts = spec.checkpoint, spec.checkpoint_facts
    if spec.mini or not (checkpoint.save or checkpoint.load):
        return []
    if facts is None:
        problem = f"the recipe does not cover checkpoints of {spec.workload} {spec.size}"
        fix = "run without checkpoints, or expect untested behavior"
        return [Finding(rule="checkpoint", problem=problem, fix=fix, warning=True)]
    findings, (first, last) = [], facts.save_gpus
    if checkpoint.save and not first <= spec.gpus <= last:
        problem = f"saving a checkpoint of {spec.size} is supported on {first} to {last} GPUs, not on {spec.gpus}"
        findings.append(Finding(rule="checkpoint", problem=problem, fix=f"use --gpus {first} to {last}"))
    if checkpoint.load and spec.gpus < facts.load_min_gpus:
        least = facts.load_min_gpus
        problem = f"loading a checkpoint of {spec.size} is tested on {least} or more GPUs, not on {spec.gpus}"
        findings.append(Finding(rule="checkpoint", problem=problem, fix=f"use --gpus {least} or more"))
    return findings


def _tokenizer(spec: RunSpec) -> list[Finding]:
    if settings(spec).tokenizer != "hub" or "HF_TOKEN" in spec.secrets:
        return []
    page = f" and access to {HUB}{spec.gated_tokenizer}" if spec.gated_tokenizer else ""
    fix = "set HF_TOKEN, or use --set tokenizer=null, which does not need it"
    return [Finding(rule="tokenizer", problem=f"--set tokenizer=hub needs HF_TOKEN{page}", fix=fix)]


def _profile(spec: RunSpec) -> list[Finding]:
    """Check that the profiler is one for PyTorch: XPlane is for JAX."""
    if spec.profile is None or spec.profile.tool != "xplane":
        return []
    problem = "xplane profiles JAX programs, and Megatron runs on PyTorch"
    return [Finding(rule="profile", problem=problem, fix="use --tool nsys or torch")]
