"""Search the parallelism with the shortest predicted step within the memory of the GPU."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from llmbx.api import UsageError, Value

from .atlas.row import Row
from .case import Case, Recompute
from .cost import memory
from .prediction import Prediction, Predictor
from .regression.features import features
from .regression.posterior import Posterior
from .target import Target
from .validity import rules

if TYPE_CHECKING:
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
    etp: int
    vp: int
    mbs: int
    fsdp: bool
    recompute: str
    offload_layers: int
    step_time_s: float | None
    low_s: float | None
    high_s: float | None
    tokens_per_s_per_gpu: float | None
    memory_gb: float | None
    published: bool


class Plan(Value, frozen=True, kw_only=True):
    """The best configurations, and where the published choice stands among all that were tried.

    `valid` configurations keep the rules, `fitting` ones also the memory; the published choice is among the valid
    ones, for it ran. `published_rank` is None if no choice is published, and counts among `fitting` and the choice
    itself. `published_slower_percent` compares its predicted step time with that of the best; it is negative only if
    the published choice is faster and does not fit by its predicted memory. `published_tokens_per_s_per_gpu` is
    the published figure, whose batch may be another one. `memory_limit_gb` is the memory of the GPU.
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
    published_tokens_per_s_per_gpu: float | None
    unknown_because: str | None

    def lines(self) -> list[str]:
        """The plan in words."""
        lines = [f"{self.model} on {self.gpus} x {self.gpu_type} {self.dtype}, GBS {self.gbs}, sequence {self.seq}: "
                 f"{self.valid} valid configurations, {self.fitting} within the memory"]  # fmt: skip
        if self.unknown_because:
            lines.append(f"unknown: {self.unknown_because}")
        if self.published is None:
            lines.append("no choice is published for these GPUs")
        elif self.published_slower_percent is not None:
            lines.append(f"published choice ({self.published_from}): {self._rates()}")
            lines.append(f"  {self._standing(self.published_slower_percent)}")
        return lines

    def _rates(self) -> str:
        """The published tokens/s per GPU, and the predicted ones."""
        choice = self.published
        rates = [(self.published_tokens_per_s_per_gpu, "published"),
                 (choice.tokens_per_s_per_gpu if choice else None, "predicted")]  # fmt: skip
        return ", ".join(f"{rate:.0f} tokens/s per GPU {what}" for rate, what in rates if rate is not None)

    def _standing(self, slower: float) -> str:
        if slower < 0:
            return f"by prediction {-slower:.1f} % faster than the best that fits, and above the memory itself"
        than_best = f"{slower:.1f} % slower than the best by prediction" if slower else "the best by prediction"
        return f"rank {self.published_rank}, {than_best}"


def plan(target: Target, predictor: Predictor, rows: Sequence[Row], workspace: Workspace, top: int) -> Plan:
    """The plan for the target's model, GPUs and global batch.

    Raises `UsageError` if nothing is valid, or if the memory cannot be estimated.
    """
    base = target.case
    if not base.model.has_shape:
        raise UsageError(f"--best: the shape of {base.model.name} is not known")
    if memory.estimate(base) is None:
        raise UsageError(f"--best: the memory of {base.stack} is not known, so what fits is not either")
    row, case = _published(base, rows) or (None, None)
    published = (f"{row.source} {row.release}{_apart(base, row)}", case) if row and case else None
    allowed = rules(target.spec, workspace)
    candidates = [base if case.layout == base.layout else case for case in _candidates(base) if allowed(case)]
    if candidates and published and published[1].layout not in (case.layout for case in candidates):
        candidates.append(published[1])  # it ran, with a split of layers or a recomputation that is not searched
    if not candidates:
        raise UsageError(f"--best: no valid configuration of {base.model.name} on {base.gpus} GPUs with GBS {base.gbs}")
    limit = predictor.limit_gb(base.gpu_type)
    fitting = [case for case in candidates if _needs(case) <= HEADROOM * (limit or float("inf"))]
    posterior = predictor.posterior_of(published[1] if published else base)
    times = _times(predictor, posterior, fitting)
    order = np.argsort(times, kind="stable")
    reason = predictor.predict(fitting[order[0]] if fitting else base, target.base).unknown_because
    best = [_choice(predictor, posterior, fitting[index], rank, published) for rank, index in enumerate(order[:top], 1)]
    theirs = _time_of(published[1], predictor, posterior, fitting, times) if published else None
    rank = int((times < theirs).sum()) + 1 if theirs is not None else None
    slower = 100 * (theirs / times[order[0]] - 1) if theirs is not None and len(times) else None
    return Plan(
        model=base.model.name, gpu_type=base.gpu_type, gpus=base.gpus, dtype=base.dtype, gbs=base.gbs, seq=base.seq,
        memory_limit_gb=limit, valid=len(candidates), fitting=len(fitting), choices=tuple(best),
        published=_choice(predictor, posterior, published[1], rank or 0, published) if published else None,
        published_from=published[0] if published else None, published_rank=rank,
        published_slower_percent=float(slower) if slower is not None else None,
        published_tokens_per_s_per_gpu=row.tokens_per_s_per_gpu if row else None, unknown_because=reason,
    )  # fmt: skip


def _times(
    predictor: Predictor, posterior: Posterior, cases: Sequence[Case]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Predicted seconds of a step of each configuration."""
    if not cases:
        return np.zeros(0)
    means = posterior.means(features(cases, predictor.calibration.coefficients))
    return np.maximum(means, [predictor.least(case) for case in cases])


def _time_of(
    case: Case, predictor: Predictor, posterior: Posterior, fitting: Sequence[Case],
    times: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> float:  # fmt: skip
    """Predicted seconds of a step of a configuration: exactly those in `times` if it is among the fitting ones."""
    place = next((i for i, each in enumerate(fitting) if each.layout == case.layout), None)
    return float(_times(predictor, posterior, [case])[0] if place is None else times[place])


def _needs(case: Case) -> float:
    estimate = memory.estimate(case)
    assert estimate is not None
    return estimate.total_gb


def _choice(
    predictor: Predictor, posterior: Posterior, case: Case, rank: int, published: tuple[str, Case] | None
) -> Choice:
    prediction: Prediction = predictor.predict(case, "", posterior)
    return Choice(
        rank=rank, tp=case.tp, pp=case.pp, cp=case.cp, ep=case.ep, etp=case.etp, vp=case.vp, mbs=case.mbs,
        fsdp=case.fsdp, recompute=case.recompute, offload_layers=case.offload_layers,
        step_time_s=prediction.step_time_s.value, low_s=prediction.step_time_s.low, high_s=prediction.step_time_s.high,
        tokens_per_s_per_gpu=prediction.tokens_per_s_per_gpu.value, memory_gb=prediction.memory_gb.value,
        published=published is not None and case.layout == published[1].layout,
    )  # fmt: skip


def _apart(base: Case, row: Row) -> str:
    """How the published figure is one of another job."""
    jobs = (("framework", base.stack, row.stack), ("global batch", base.gbs, row.gbs),
            ("sequence length", base.seq, row.seq))  # fmt: skip
    differing = [f"{name} {theirs}" for name, ours, theirs in jobs if ours != theirs]
    return f"; another job: {', '.join(differing)}" if differing else ""


def _published(base: Case, rows: Sequence[Row]) -> tuple[Row, Case] | None:
    """The newest published configuration of this model, GPU type, number of GPUs and dtype.

    No table has offloaded layers: those are the recipe's, if it has the same degrees.
    """
    same = [
        (row, case)
        for row in rows
        if row.model == base.model.name and row.gpu_type == base.gpu_type and row.gpus == base.gpus
        and row.dtype == base.dtype and row.tp is not None and row.layers is None and row.task == base.task
        and row.is_benchmark and (case := row.case()) is not None
    ]  # fmt: skip
    if not same:
        return None
    row, case = max(same, key=lambda pair: pair[0].when)
    layout = {name: getattr(case, name) for name in ("tp", "pp", "cp", "ep", "etp", "vp", "mbs", "fsdp", "recompute")}
    placed = base.replace(**layout)
    return row, placed if placed == base else placed.replace(offload_layers=0, recomputed=0.0, chosen=True)


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
        yield from _batches(base.replace(tp=tp, pp=pp, cp=cp, ep=ep, etp=1, offload_layers=0, recomputed=0.0,
                                         chosen=False))  # fmt: skip


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
