"""Search the parallelism with the shortest predicted step within the memory of the GPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from llmbx.api import UsageError, Value

from .atlas.row import Row
from .case import Case, Recompute
from .cost import memory
from .prediction import Prediction, Predictor
from .regression.features import features
from .target import Target, check

if TYPE_CHECKING:
    from llmbx.api import RunSpec
    from llmbx.api.verbs import Workspace

HEADROOM = 0.95
"""The part of a GPU's memory that a configuration may need."""
LARGEST_TP, LARGEST_PP, LARGEST_CP, LARGEST_EP, LARGEST_VP, LARGEST_MBS = 8, 64, 8, 512, 12, 8
RECOMPUTES: tuple[Recompute, ...] = ("none", "full")


class Choice(Value, frozen=True, kw_only=True):
    """One configuration with its rank, predicted step time (s, with its 90 % interval) and memory (GB)."""

    rank: int
    tp: int
    pp: int
    cp: int
    ep: int
    vp: int
    mbs: int
    fsdp: bool
    recompute: str
    step_time_s: float | None
    low_s: float | None
    high_s: float | None
    tokens_per_s_per_gpu: float | None
    memory_gb: float | None
    published: bool


class Plan(Value, frozen=True, kw_only=True):
    """The best configurations, and where the published choice stands among all that were tried.

    `valid` configurations keep the rules, `fitting` ones also the memory. `published_rank` is None if no choice is
    published, and counts among `fitting` and the choice itself. `published_slower_percent` compares its predicted step
    time with that of the best.
    """

    model: str
    gpu_type: str
    gpus: int
    dtype: str
    gbs: int
    seq: int
    memory_limit_gb: float | None
    valid: int
    fitting: int
    choices: tuple[Choice, ...]
    published: Choice | None
    published_from: str | None
    published_rank: int | None
    published_slower_percent: float | None
    unknown_because: str | None

    def lines(self) -> list[str]:
        """The plan in words."""
        found = [f"{self.model} on {self.gpus} x {self.gpu_type} {self.dtype}, GBS {self.gbs}, sequence {self.seq}: "
                 f"{self.valid} valid configurations, {self.fitting} within the memory"]  # fmt: skip
        if self.unknown_because:
            found.append(f"unknown: {self.unknown_because}")
        if self.published is None:
            found.append("no choice is published for these GPUs")
        elif self.published_slower_percent is not None:
            found.append(f"published choice ({self.published_from}): rank {self.published_rank}, "
                         f"{self.published_slower_percent:.1f} % slower than the best by prediction")  # fmt: skip
        return found


def plan(target: Target, predictor: Predictor, rows: Sequence[Row], workspace: Workspace, top: int) -> Plan:
    """The plan for the target's model, GPUs and global batch.

    Raises `UsageError` if nothing is valid, or if the memory cannot be estimated.
    """
    base = target.case
    if not base.model.has_shape:
        raise UsageError(f"--best: the shape of {base.model.name} is not known")
    if memory.estimate(base) is None:
        raise UsageError(f"--best: the memory of {base.stack} is not known, so what fits is not either")
    reason = predictor.predict(base, target.base).unknown_because
    published = _published(base, rows)
    allowed = _rules(target, workspace)
    candidates = [case for case in _candidates(base) if allowed(case)]
    if not candidates:
        raise UsageError(f"--best: no valid configuration of {base.model.name} on {base.gpus} GPUs with GBS {base.gbs}")
    limit = predictor.limit_gb(base.gpu_type)
    fitting = [case for case in candidates if _needs(case) <= HEADROOM * (limit or float("inf"))]
    times = _times(predictor, fitting)
    order = np.argsort(times, kind="stable")
    best = [_choice(predictor, fitting[index], rank, published) for rank, index in enumerate(order[:top], 1)]
    theirs = _times(predictor, [published[1]])[0] if published else None
    rank = int((times < theirs).sum()) + 1 if theirs is not None else None
    slower = 100 * (theirs / times[order[0]] - 1) if theirs is not None and len(times) else None
    return Plan(
        model=base.model.name, gpu_type=base.gpu_type, gpus=base.gpus, dtype=base.dtype, gbs=base.gbs, seq=base.seq,
        memory_limit_gb=limit, valid=len(candidates), fitting=len(fitting), choices=tuple(best),
        published=_choice(predictor, published[1], rank or 0, published) if published else None,
        published_from=published[0] if published else None, published_rank=rank,
        published_slower_percent=float(slower) if slower is not None else None, unknown_because=reason,
    )  # fmt: skip


def _times(predictor: Predictor, cases: Sequence[Case]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Predicted seconds of a step of each configuration."""
    if not cases:
        return np.zeros(0)
    return predictor.posterior.means(features(cases, predictor.calibration.coefficients))


def _needs(case: Case) -> float:
    found = memory.estimate(case)
    assert found is not None
    return found.total_gb


def _choice(predictor: Predictor, case: Case, rank: int, published: tuple[str, Case] | None) -> Choice:
    found: Prediction = predictor.predict(case, "")
    return Choice(
        rank=rank, tp=case.tp, pp=case.pp, cp=case.cp, ep=case.ep, vp=case.vp, mbs=case.mbs, fsdp=case.fsdp,
        recompute=case.recompute, step_time_s=found.step_time_s.value, low_s=found.step_time_s.low,
        high_s=found.step_time_s.high, tokens_per_s_per_gpu=found.tokens_per_s_per_gpu.value,
        memory_gb=found.memory_gb.value, published=published is not None and _layout(case) == _layout(published[1]),
    )  # fmt: skip


def _layout(case: Case) -> tuple[object, ...]:
    return case.tp, case.pp, case.cp, case.ep, case.vp, case.mbs, case.fsdp, case.recompute


def _published(base: Case, rows: Sequence[Row]) -> tuple[str, Case] | None:
    """The newest published configuration of this model, GPU type, number of GPUs and dtype."""
    same = [
        (row, case)
        for row in rows
        if row.model == base.model.name and row.gpu_type == base.gpu_type and row.gpus == base.gpus
        and row.dtype == base.dtype and row.tp is not None and row.layers is None and row.task == base.task
        and row.note != "functional" and (case := row.case()) is not None
    ]  # fmt: skip
    if not same:
        return None
    row, case = max(same, key=lambda pair: pair[0].when)
    layout = {name: getattr(case, name) for name in ("tp", "pp", "cp", "ep", "etp", "vp", "mbs", "fsdp", "recompute")}
    return f"{row.source} {row.release}", base.replace(**layout)


def _candidates(base: Case) -> Iterator[Case]:
    """All combinations of degrees that divide the GPUs and the batch."""
    model, gpus = base.model, base.gpus
    tps = [n for n in (1, 2, 4, 8) if n <= LARGEST_TP and gpus % n == 0 and model.heads % n == 0]
    pps = [n for n in range(1, min(model.layers + 2, LARGEST_PP) + 1) if gpus % n == 0]
    cps = [n for n in (1, 2, 4, 8) if n <= LARGEST_CP and gpus % n == 0]
    eps = [n for n in range(1, min(model.experts, LARGEST_EP) + 1) if model.experts % n == 0 and gpus % n == 0] or [1]
    for tp, pp, cp, ep in itertools.product(tps, pps, cps, eps):
        if gpus % (tp * pp * cp) or (gpus // pp) % ep:
            continue
        yield from _batches(base.replace(tp=tp, pp=pp, cp=cp, ep=ep, etp=1))


def _batches(case: Case) -> Iterator[Case]:
    """The micro-batch sizes, virtual stages, sharding and recomputation of one layout."""
    dp = case.gpus // (case.tp * case.pp * case.cp)
    sizes = [n for n in (1, 2, 4, 8) if n <= LARGEST_MBS and case.gbs % (n * dp) == 0]
    for mbs, vp in itertools.product(sizes, _virtual(case)):
        accumulation = case.gbs // (mbs * dp)
        if vp > 1 and accumulation % case.pp:
            continue
        for fsdp, recompute in itertools.product((False, True) if case.pp == 1 else (False,), RECOMPUTES):
            yield case.replace(mbs=mbs, vp=vp, fsdp=fsdp, recompute=recompute)


def _virtual(case: Case) -> list[int]:
    """Numbers of virtual stages that split the layers, alone or with embedding and loss, evenly."""
    if case.pp == 1:
        return [1]
    layers = case.model.layers
    return [n for n in range(1, LARGEST_VP + 1) if layers % (case.pp * n) == 0 or (layers + 2) % (case.pp * n) == 0]


def _rules(target: Target, workspace: Workspace) -> Callable[[Case], bool]:
    """Whether a configuration keeps the rules: those of the framework if the catalog has the workload."""
    spec = target.spec
    if spec is None:
        return _valid
    framework = workspace.plugins.framework(spec.plugin)

    def allowed(case: Case) -> bool:
        from llmbx.api.verbs import common_findings

        changed = _as_spec(case, spec)
        found = [*common_findings(changed, here=False), *framework.check_spec(changed)]
        return all(finding.warning for finding in found)

    return allowed


def _valid(case: Case) -> bool:
    try:
        check(case)
    except UsageError:
        return False
    parts = (2 * case.cp if case.cp > 1 else 1) * case.tp
    return case.seq % parts == 0


def _as_spec(case: Case, spec: RunSpec) -> RunSpec:
    p = spec.parallelism.replace(
        tp=case.tp, pp=case.pp, cp=case.cp, ep=case.ep if case.model.experts else None,
        etp=case.etp if case.model.experts else None, vp=case.vp if case.pp > 1 else None, dp=round(case.dp),
        fsdp=case.fsdp,
    )  # fmt: skip
    return spec.replace(
        parallelism=p, micro_batch_size=case.mbs, global_batch_size=case.gbs,
        gradient_accumulation=round(case.accumulation), findings=(), offload_layers=0,
        recompute_layers=case.model.layers if case.recompute == "full" else 0,
    )  # fmt: skip
