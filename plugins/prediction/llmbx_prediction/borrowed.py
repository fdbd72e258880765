"""The nearest published configuration, fitted to another model or number of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmbx.api import Row as CatalogRow

from .atlas.near import distance, generation
from .case import Case
from .cost.model import Model, terms
from .question import Question
from .specification import dtype_of, when_of

if TYPE_CHECKING:
    from .atlas.row import Row

SAMPLE = 4096
"""Tokens of a sample with which parameters are counted, which do not depend on it."""


def of_nearest(model: Model, question: Question, rows: Sequence[Row]) -> tuple[Case, str]:
    """The nearest published configuration, scaled to the GPUs asked for; a plain one if there is none."""
    assert question.gpu_type is not None and question.gpus is not None
    dtype = dtype_of(question.dtype or ("bf16" if question.gpu_type == "a100" else "fp8"))
    plain = Case(
        model=model,
        gpu_type=question.gpu_type,
        gpus=question.gpus,
        dtype=dtype,
        gbs=question.gpus * 16,
        seq=model.seq,
        when=when_of(question.release or ""),
        release=question.release or "",
    )
    cases = [(row, case) for row in bases(model, question.gpu_type, rows) if (case := row.case())]
    if not cases:
        return plain.replace(gbs=16 * question.gpus, ep=_experts_in(model, question.gpus)), "no published configuration"
    if question.dtype is None:
        plain = plain.replace(dtype=min(cases, key=lambda pair: distance(plain, pair[1]))[1].dtype)
    row, case = min(cases, key=lambda pair: _apart(plain, pair[1]))
    release = question.release or case.release
    scaled = case.replace(
        model=model, gpu_type=question.gpu_type, gpus=question.gpus, dtype=plain.dtype,
        when=when_of(release, case.when) if question.release else case.when, release=release,
    )  # fmt: skip
    base = f"{row.source} {row.release}: {row.gpus} x {row.gpu_type} {row.dtype}"
    if row.model == model.name:
        return fitted(scaled, case), base
    return fitted(_suited(scaled, case), case), f"{base}, layout of {row.model}"


def bases(model: Model, gpu_type: str, rows: Sequence[Row]) -> list[Row]:
    """The rows whose layout a configuration of this model can have: the model's own.

    If they are of other generations of GPUs, those of similar models on this GPU type, if there are any.
    """
    rows = [row for row in rows if row.task == "pretrain" and row.tp is not None and row.is_benchmark]
    mine = [row for row in rows if row.model == model.name]
    if any(generation(row.gpu_type) == generation(gpu_type) for row in mine):
        return mine
    return [row for row in rows if row.gpu_type == gpu_type and _similar(row.shape(), model)] or mine


def _similar(a: Model, b: Model) -> bool:
    """Whether the layout of one model suits the other: of one family, with up to twice the parameters."""
    if a.family != b.family or not (a.has_shape and b.has_shape):
        return False
    sizes = [sum(term.parameters for term in terms(model, SAMPLE)) for model in (a, b)]
    return max(sizes) <= 2 * min(sizes)


def _suited(case: Case, published: Case) -> Case:
    """The published layout for another model: with its sequence and as many tokens, and degrees that divide it."""
    model, shorter = case.model, published.seq / case.model.seq
    ep = max(n for n in range(1, case.ep + 1) if model.experts % n == 0) if model.experts else 1
    tp = max(n for n in range(1, case.tp + 1) if not model.heads or model.heads % n == 0)
    pp = case.pp if model.layers % case.pp == 0 else 1
    vp = case.vp if model.layers % (pp * case.vp) == 0 else 1
    mbs = max(1, round(case.mbs * shorter))
    return case.replace(seq=model.seq, mbs=mbs, ep=ep, tp=tp, pp=pp, vp=vp)


def _apart(plain: Case, case: Case) -> float:
    return distance(plain.replace(stack=case.stack, when=case.when), case) - 0.05 * case.when


def _experts_in(model: Model, gpus: int) -> int:
    return max((n for n in (1, 2, 4, 8) if gpus % n == 0 and model.experts % n == 0), default=1) if model.experts else 1


def fitted(case: Case, published: Case) -> Case:
    """The configuration with the published batch per GPU, and with degrees halved until they divide the GPUs."""
    while case.gpus % (case.tp * case.pp * case.cp) or case.gpus % (case.pp * case.ep * case.etp):
        for name in ("ep", "cp", "pp", "tp", "etp"):
            if getattr(case, name) > 1 and (name != "ep" or case.gpus % (case.pp * case.ep * case.etp)):
                case = case.replace(**{name: max(1, getattr(case, name) // 2)})
                break
        else:
            break
    unit = int(case.mbs * case.dp)
    batch = max(1, round(published.gbs * published.seq / case.seq))
    whole = CatalogRow.scaled_batch(batch, published.gpus, case.gpus)
    gbs = whole or batch * case.gpus / published.gpus
    fitted = case.replace(gbs=max(1, round(gbs / unit)) * unit, vp=case.vp if case.pp > 1 else 1)
    return fitted.replace(chosen=published.chosen and _run(fitted) == _run(published))


def _run(case: Case) -> tuple[object, ...]:
    """A layout, and the run that it was chosen for."""
    return case.model.name, case.model.layers, case.gpu_type, case.layout
