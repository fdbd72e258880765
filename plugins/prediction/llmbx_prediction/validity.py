"""Whether a configuration can be run: by the framework's own rules if the catalog has the workload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from llmbx.api import UsageError

from .case import Case

if TYPE_CHECKING:
    from llmbx.api import Finding, RunSpec
    from llmbx.api.verbs import Workspace


def check(case: Case) -> Case:
    """The case, if it can be run. Raises `UsageError` with the rule that it breaks."""
    ranks = case.tp * case.pp * case.cp
    if case.gpus % ranks:
        raise UsageError(f"TP {case.tp} x PP {case.pp} x CP {case.cp} = {ranks} does not divide {case.gpus} GPUs")
    unit = case.mbs * (case.gpus // ranks)
    if case.gbs % unit:
        raise UsageError(f"the global batch of {case.gbs} is not a multiple of MBS {case.mbs} x DP {case.gpus // ranks}"
                         f" = {unit}: use --set gbs={max(1, round(case.gbs / unit)) * unit}")  # fmt: skip
    model = case.model
    if case.ep > 1 and not model.experts:
        raise UsageError(f"EP {case.ep} needs experts, and {model.name} has none")
    if model.experts and model.has_shape and model.experts % case.ep:
        raise UsageError(f"EP {case.ep} does not divide the {model.experts} experts")
    if (case.gpus // case.pp) % (case.ep * case.etp):
        raise UsageError(f"EP {case.ep} x ETP {case.etp} does not divide the {case.gpus // case.pp} GPUs of a stage")
    if model.heads and model.heads % case.tp:
        raise UsageError(f"TP {case.tp} does not divide the {model.heads} attention heads")
    if case.fsdp and case.pp > 1 and case.engine == "megatron":
        raise UsageError(f"FSDP cannot be combined with PP {case.pp}: use --set fsdp=false or --set pp=1")
    if model.has_shape and case.pp > model.layers:
        raise UsageError(f"{model.layers} layers do not split into PP {case.pp} stages")
    return case


def refusal(case: Case, spec: RunSpec, check_spec: Callable[[RunSpec], Sequence[Finding]]) -> str | None:
    """The first rule, of llmbx or of the framework (`check_spec`), that a configuration of the catalog's run breaks.

    None if it keeps all.
    """
    from llmbx.api.verbs import common_findings

    changed = as_spec(case, spec)
    findings = [*common_findings(changed, here=False), *check_spec(changed)]
    return next((f"{finding.problem}: {finding.fix}" for finding in findings if not finding.warning), None)


def rules(spec: RunSpec | None, workspace: Workspace) -> Callable[[Case], bool]:
    """Whether a configuration keeps the rules: those of the framework if the catalog has the workload."""
    if spec is None:
        return _valid
    check_spec = workspace.plugins.framework(spec.plugin).check_spec
    return lambda case: refusal(case, spec, check_spec) is None


def _valid(case: Case) -> bool:
    try:
        check(case)
    except UsageError:
        return False
    parts = (2 * case.cp if case.cp > 1 else 1) * case.tp
    return case.seq % parts == 0


def as_spec(case: Case, spec: RunSpec) -> RunSpec:
    """The catalog's run with the parallelism, batch and memory settings of a configuration."""
    p = spec.parallelism.replace(
        tp=case.tp, pp=case.pp, cp=case.cp, ep=case.ep if case.model.experts else None,
        etp=case.etp if case.model.experts else None, vp=case.vp if case.pp > 1 else None, dp=round(case.dp),
        fsdp=case.fsdp,
    )  # fmt: skip
    again = case.model.layers if case.recompute == "full" else spec.recompute_layers if case.recomputed else 0
    return spec.replace(
        parallelism=p, gpus=case.gpus, micro_batch_size=case.mbs, global_batch_size=case.gbs,
        gradient_accumulation=round(case.accumulation), findings=(), offload_layers=case.offload_layers,
        recompute_layers=again, model=spec.model.replace(layers=case.model.layers, sequence_length=case.seq),
    )  # fmt: skip
