"""Rules for every framework: parallelism degrees and GPUs, batch sizes and degrees. Returns all findings at once."""

from __future__ import annotations

import math
import os

from ..model import Finding, RunSpec
from ..phrases import either
from ..record.host import has_bf16

RANKS_PER_CORE = 8
RANKS_AT_LEAST = 8
"""At most RANKS_PER_CORE * cores + RANKS_AT_LEAST ranks run on one machine: in a try-out, ranks may share cores."""


def emulated_bf16(spec: RunSpec, slower: str) -> list[Finding]:
    """Return a warning if this CPU has to emulate BF16; `slower` ("2 to 5") is the step time relative to FP32.

    For use in a framework's `check_spec`, since the slow-down depends on its kernels.
    """
    if (spec.launcher, spec.gpu_type, spec.dtype) != ("local", "cpu", "bf16") or has_bf16(os.environ) is not False:
        return []
    problem = f"this CPU has no BF16 instructions: a step takes {slower} times as long as with fp32"
    return [Finding(rule="emulated_bf16", problem=problem, fix="omit --dtype to run in fp32", warning=True)]


def common_findings(spec: RunSpec, here: bool = True) -> list[Finding]:
    """Return all violations of the common rules, each with a fix, after the findings of the resolution.

    Rules about this machine are checked only if the run is to start `here`. After a value below 1, rules that divide
    by it are not checked; nor are those that use DP if it is not an integer.
    """
    if impossible := _positive(spec):
        return [*spec.findings, *impossible]
    topology = _topology(spec)
    batches = [] if topology else _batches(spec)
    local = _local_ranks(spec, os.cpu_count() or 1) if here else []
    return [
        *spec.findings,
        *local,
        *topology,
        *_nodes(spec),
        *batches,
        *_heads(spec),
        *_pipeline(spec),
        *_experts(spec),
    ]


def _positive(spec: RunSpec) -> list[Finding]:
    p = spec.parallelism
    m = spec.model
    values = {"tp": p.tp, "pp": p.pp, "cp": p.cp, "ep": p.ep, "etp": p.etp, "vp": p.vp,
              "mbs": spec.micro_batch_size, "gbs": spec.global_batch_size, "layers": m.layers, "heads": m.heads,
              "query_groups": m.query_groups, "experts": m.experts,
              "hidden_size": m.hidden_size, "ffn_hidden_size": m.ffn_hidden_size,
              "vocab_size": m.vocab_size}  # fmt: skip
    return [
        Finding(rule=key, problem=f"{key.upper()} is {value}", fix=f"use --set {key}=N with N >= 1")
        for key, value in values.items()
        if value is not None and value < 1
    ]


def _local_ranks(spec: RunSpec, cores: int) -> list[Finding]:
    """Reject more ranks than one machine can start in reasonable time."""
    most = RANKS_PER_CORE * cores + RANKS_AT_LEAST
    if spec.launcher != "local" or spec.gpus <= most:
        return []
    problem = f"{spec.gpus} ranks are too many for this machine's {cores} cores"
    return [
        Finding(
            rule="local_ranks", problem=problem, fix=f"use at most --gpus {most}, or a launcher for several machines"
        )
    ]


def _topology(spec: RunSpec) -> list[Finding]:
    p = spec.parallelism
    ranks = p.tp * p.pp * p.cp
    if ranks * p.dp == spec.gpus:
        return []
    counts = _multiples_around(spec.gpus, ranks)
    return [
        Finding(
            rule="topology",
            problem=f"TP {p.tp} x PP {p.pp} x CP {p.cp} = {ranks} does not divide {spec.gpus} GPUs",
            fix=f"use --gpus {either(counts)}, or a smaller --set tp, pp or cp",
        )
    ]


def _nodes(spec: RunSpec) -> list[Finding]:
    if spec.gpus <= spec.gpus_per_node or spec.gpus % spec.gpus_per_node == 0:
        return []
    counts = _multiples_around(spec.gpus, spec.gpus_per_node)
    return [
        Finding(
            rule="gpus_per_node",
            problem=f"{spec.gpus} GPUs do not fill nodes of {spec.gpus_per_node}",
            fix=f"use --gpus {either(counts)}, or another --gpus-per-node",
        )
    ]


def _batches(spec: RunSpec) -> list[Finding]:
    mbs, dp, gbs = spec.micro_batch_size, spec.parallelism.dp, spec.global_batch_size
    if gbs % (mbs * dp):
        problem = f"the global batch of {gbs} is not a multiple of MBS {mbs} x DP {dp} = {mbs * dp}"
        fix = f"use {either(_multiples_around(gbs, mbs * dp), '--set gbs=')}"
        return [Finding(rule="gbs", problem=problem, fix=fix)]
    accumulation = gbs // (mbs * dp)
    if spec.gradient_accumulation == accumulation:
        return []
    problem = f"gradient accumulation is {spec.gradient_accumulation}, but GBS / (MBS x DP) = {accumulation}"
    return [Finding(rule="ga", problem=problem, fix=f"use --set gbs={mbs * dp * spec.gradient_accumulation}")]


def _heads(spec: RunSpec) -> list[Finding]:
    heads, groups, tp = spec.model.heads, spec.model.query_groups, spec.parallelism.tp
    findings = []
    fix = f"use {either(_divisors(math.gcd(heads, groups)), '--set tp=')}"
    if heads % groups:
        problem, right = f"{heads} attention heads do not share {groups} query groups evenly", _divisors(heads)
        findings.append(
            Finding(rule="query_groups", problem=problem, fix=f"use {either(right, '--set query_groups=')}")
        )
    if heads % tp:
        problem = f"TP {tp} does not divide the {heads} attention heads"
        findings.append(Finding(rule="heads", problem=problem, fix=fix))
    if groups % tp and tp % groups:
        problem = f"TP {tp} is neither a divisor nor a multiple of the {groups} query groups"
        findings.append(Finding(rule="query_groups", problem=problem, fix=fix))
    return findings


def _pipeline(spec: RunSpec) -> list[Finding]:
    p = spec.parallelism
    if (p.vp or 1) == 1 or p.pp > 1:
        return []
    problem = f"VP {p.vp} requires pipeline parallelism, but PP is 1"
    return [Finding(rule="vp", problem=problem, fix="use --set vp=1, or --set pp above 1")]


def _experts(spec: RunSpec) -> list[Finding]:
    experts, p = spec.model.experts, spec.parallelism
    if experts is None:
        return [
            Finding(rule=key, problem=f"{key.upper()} {value} needs experts, but {spec.workload} {spec.size} has none",
                    fix=f"remove --set {key}")
            for key, value in (("ep", p.ep), ("etp", p.etp))
            if (value or 1) > 1
        ]  # fmt: skip
    if experts % (p.ep or 1) == 0:
        return []
    problem = f"EP {p.ep} does not divide the {experts} experts"
    return [Finding(rule="ep", problem=problem, fix=f"use {either(_divisors(experts), '--set ep=')}")]


def _multiples_around(value: int, unit: int) -> list[int]:
    """The multiples of `unit` just below and above `value`, without 0."""
    below = value // unit * unit
    return [count for count in (below, below + unit) if count > 0]


def _divisors(number: int) -> list[int]:
    """The divisors of `number`, ascending."""
    return [count for count in range(1, number + 1) if number % count == 0]
