"""Search for an assumption that explains a published figure. The simplest explanation is returned.

Single changes are tried first, the most common mistakes before rarer ones; then pairs of the other attention convention
and one more change; then unusual mistakes. Later candidates must match more closely, because there are more of them and
a match by chance is more likely. An explanation is a hypothesis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from llmbx.catalog.hardware import GpuType
from llmbx.model import Value

from .terms import Case, Terms, compute

MATCH = 0.0025
"""Allowed relative difference for a single change: the error of constants that are printed with three digits."""

CLOSE_MATCH = 0.0005
"""Allowed relative difference for pairs and unusual mistakes."""


class Change(Value, frozen=True):
    """One assumption: its description, the terms under it, and a factor on the result."""

    words: str
    terms: Terms
    factor: float = 1.0


@dataclasses.dataclass(frozen=True)
class Known:
    """Candidates for wrong terms: other rows, peaks of other GPUs, vocabulary sizes of other models."""

    cases: Sequence[Case] = ()
    gpus: Mapping[str, GpuType] = dataclasses.field(default_factory=dict)
    vocabularies: Mapping[int, str] = dataclasses.field(default_factory=dict)


def explain(case: Case, field: str, published: float, known: Known) -> str | None:
    """Describe the simplest assumption that gives the published figure; None if there is none."""
    own = compute(field, case.terms, case.formula)
    if own is None or own <= 0 or published <= 0:
        return None
    if _rounds_to(own, published, field):
        return "rounding to the printed digits"
    searches = (
        (_single(case, field, known), MATCH),
        (_pairs(case, field, known), CLOSE_MATCH),
        (_unusual(case, field), CLOSE_MATCH),
    )
    for changes, limit in searches:
        for change in changes:
            value = compute(field, change.terms, case.formula)
            if value is not None and abs(change.factor * value / published - 1) <= limit:
                return change.words
    return None


def _single(case: Case, field: str, known: Known) -> Iterator[Change]:
    if field == "mfu":
        yield from _percent(case.terms)
        yield from peaks(case, known.gpus)
    if field in ("mfu", "tflops_per_gpu", "model_flops"):
        yield from _convention(case.terms)
        yield from _query_groups(case.terms)
    if field != "model_flops":
        yield from _other_rows(case, known, field)
    if field in ("mfu", "tflops_per_gpu", "model_flops"):
        yield from _vocabulary(case.terms, known)
        yield from _other_models(case, known)


def _pairs(case: Case, field: str, known: Known) -> Iterator[Change]:
    if field not in ("mfu", "tflops_per_gpu"):
        return
    for first in _convention(case.terms):
        changed = dataclasses.replace(case, terms=first.terms)
        rest = [*_vocabulary(first.terms, known), *_query_groups(first.terms)]
        rest += [*peaks(changed, known.gpus)] if field == "mfu" else []
        for second in (*rest, *_other_rows(changed, known, field)):
            yield second.replace(words=f"{first.words}, and {second.words}")


def _unusual(case: Case, field: str) -> Iterator[Change]:
    yield from _decimal_point(case.terms)
    if field in ("mfu", "tflops_per_gpu"):
        if case.reference.tflops_per_gpu is not None:
            yield from _off_by_one_mean(case)
        yield from _own_flops(case)


def peaks(case: Case, gpus: Mapping[str, GpuType]) -> Iterator[Change]:
    """Other peaks: of the same GPU type, then of the same dtype on other GPUs, then all others."""
    r, own = case.reference, case.terms.peak_tflops
    every = [(gpu, dtype, peak) for gpu in gpus.values() for dtype, peak in gpu.peaks.items()]
    every.sort(key=lambda item: (item[0].name != r.gpu_type, item[1] != r.dtype))
    for _, _, peak in every:
        if peak.tflops != own:
            words = f"the {peak.name} peak of {peak.tflops:g} TFLOP/s instead of {own:g}"
            yield Change(words=words, terms=case.terms.replace(peak_tflops=peak.tflops))


def _percent(terms: Terms) -> Iterator[Change]:
    for factor in (100, 0.01):
        yield Change(words="percentage and fraction swapped", terms=terms, factor=factor)


def _convention(terms: Terms) -> Iterator[Change]:
    if terms.model is not None:
        other = "causal" if terms.convention == "full" else "full"
        words = f"{other} attention instead of {terms.convention} in the FLOPs"
        yield Change(words=words, terms=terms.replace(convention=other))


def _query_groups(terms: Terms) -> Iterator[Change]:
    if terms.model is None:
        return
    own, heads = terms.model.query_groups, terms.model.heads
    divisors = [n for n in range(1, heads + 1) if heads % n == 0 and n != own]
    for groups in sorted(divisors, key=lambda n: (max(n / own, own / n), n)):
        yield Change(
            words=f"{groups} query groups instead of {own}",
            terms=terms.replace(model=terms.model.replace(query_groups=groups)),
        )


def _other_rows(case: Case, known: Known, field: str) -> Iterator[Change]:
    """Batch size, step time or GPUs of other rows of the same size: first with the same dtype, then with others."""
    r, terms = case.reference, case.terms
    rows = [c for c in known.cases if c.workload == case.workload and c.reference.size == r.size]
    same = [c for c in rows if (c.reference.dtype, c.reference.gpu_type) == (r.dtype, r.gpu_type)]
    others = [c for c in rows if c.reference.dtype != r.dtype and c.reference.gpus == r.gpus]
    for other in same:
        if other.terms.batch not in (None, terms.batch):
            words = f"the global batch size {other.terms.batch} of {other.terms.gpus} GPUs instead of {terms.batch}"
            yield Change(words=words, terms=terms.replace(batch=other.terms.batch))
    for other in (*same, *others):
        if other.terms.step_time_s not in (None, terms.step_time_s):
            words = f"the step time of {_row(other, r.dtype)}, {other.terms.step_time_s:g} s"
            yield Change(words=words, terms=terms.replace(step_time_s=other.terms.step_time_s))
    for other in same if field in ("mfu", "tflops_per_gpu") else ():
        if other.terms.gpus != terms.gpus:
            words = f"{other.terms.gpus} GPUs instead of {terms.gpus}"
            yield Change(words=words, terms=terms.replace(gpus=other.terms.gpus))


def _row(case: Case, dtype: str) -> str:
    r = case.reference
    return f"{r.gpus} GPUs" if r.dtype == dtype else f"the {r.dtype} run"


def _vocabulary(terms: Terms, known: Known) -> Iterator[Change]:
    if terms.model is None:
        return
    for size, owner in known.vocabularies.items():
        if size != terms.model.vocab_size:
            yield Change(
                words=f"the vocabulary of {owner} ({size}) instead of {terms.model.vocab_size}",
                terms=terms.replace(model=terms.model.replace(vocab_size=size)),
            )


def _other_models(case: Case, known: Known) -> Iterator[Change]:
    """Other model shapes of the workload: other sizes, or other rows of the size (proxies differ in layers)."""
    seen = {case.terms.model}
    for other in known.cases:
        if other.workload == case.workload and other.terms.model not in seen and other.terms.model is not None:
            seen.add(other.terms.model)
            words = f"the model FLOPs of {other.reference.size} with {other.terms.model.layers} layers"
            yield Change(words=words, terms=case.terms.replace(model=other.terms.model))


def _off_by_one_mean(case: Case) -> Iterator[Change]:
    """A mean over the measurement window that was divided by one step too many or too few."""
    if case.window is None:
        return
    steps = case.window[1] - case.window[0] + 1
    for divisor in (steps + 1, steps - 1):
        if divisor > 0:
            words = f"the sum over the window's {steps} steps divided by {divisor}"
            yield Change(words=words, terms=case.terms, factor=steps / divisor)


def _decimal_point(terms: Terms) -> Iterator[Change]:
    for factor in (10, 0.1, 1000, 0.001):
        yield Change(words="a misplaced decimal point", terms=terms, factor=factor)


def _own_flops(case: Case) -> Iterator[Change]:
    stated = case.reference.model_flops
    if stated is not None:
        words = f"the stated {stated:g} model FLOPs per sample, which differ from the formula"
        yield Change(words=words, terms=case.terms.replace(model=None, flops=stated))


def _rounds_to(value: float, published: float, field: str) -> bool:
    """Whether `value` rounds to `published` at its printed digits. MFU is printed in percent."""
    scale = 100 if field == "mfu" else 1
    digits = len(f"{published * scale:.6f}".rstrip("0").partition(".")[2])
    return bool(abs(value * scale - published * scale) <= 0.5 * 10**-digits)
