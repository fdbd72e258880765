"""Search for the assumptions that explain a published figure. A cause is named only if it is the only one that fits.

All single changes are tried, and all that fit are listed: the figure alone cannot decide between them (half of the GPUs
and twice the batch double an MFU alike). Pairs of the other attention convention and one more change are tried only if
no usual single change fits. Pairs and unusual mistakes must match more closely: there are more of them, and a match by
chance is more likely. An explanation is a hypothesis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from llmbx.api import Reference, Value, hardware

from .terms import Case, Terms, compute

MATCH = 0.0025
"""Allowed relative difference for a single change: the error of constants that are printed with three digits."""

CLOSE_MATCH = 0.0005
"""Allowed relative difference for pairs and unusual mistakes."""

SEVERAL = "several causes fit"
"""Begins an explanation that lists more than one cause."""

MOST = 4
"""Most causes that are listed if several fit."""


class Assumption(Value, frozen=True):
    """One assumption: its description, the terms under it, and a factor on the result."""

    description: str
    terms: Terms
    factor: float = 1.0


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Candidates for wrong terms: other rows, peaks of other GPUs, vocabulary sizes of other models."""

    cases: Sequence[Case] = ()
    gpus: Mapping[str, hardware.GpuType] = dataclasses.field(default_factory=dict)
    vocabularies: Mapping[int, str] = dataclasses.field(default_factory=dict)


def explain(case: Case, field: str, published: float, candidates: Candidates) -> str | None:
    """Describe the assumption that gives the published figure, or all of them if several do; None if none does."""
    own = compute(field, case.terms, case.formula)
    if own is None or own <= 0 or published <= 0:
        return None
    if _rounds_to(own, published, field):
        return "rounding to the printed digits"
    found = _fitting(_single(case, field, candidates), MATCH, case, field, published)
    if not found:
        found = _fitting(_pairs(case, field, candidates), CLOSE_MATCH, case, field, published)
    return _named([*found, *_fitting(_unusual(case, field), CLOSE_MATCH, case, field, published)])


def _fitting(
    assumptions: Iterable[Assumption], limit: float, case: Case, field: str, published: float
) -> list[Assumption]:
    """The assumptions that give the published figure within the relative difference `limit`."""
    found = []
    for assumption in assumptions:
        value = compute(field, assumption.terms, case.formula)
        if value is not None and abs(assumption.factor * value / published - 1) <= limit:
            found.append(assumption)
    return found


def _named(found: Sequence[Assumption]) -> str | None:
    """Name the one cause, or say that several fit. Assumptions with the same terms are one cause."""
    causes: dict[tuple[Terms, float], list[str]] = {}
    for assumption in found:
        causes.setdefault((assumption.terms, assumption.factor), []).append(assumption.description)
    texts = [" or ".join(dict.fromkeys(descriptions)) for descriptions in causes.values()]
    if len(texts) < 2:
        return texts[0] if texts else None
    more = f"; and {len(texts) - MOST} more" if len(texts) > MOST else ""
    return f"{SEVERAL}: {'; '.join(texts[:MOST])}{more}"


def _single(case: Case, field: str, candidates: Candidates) -> Iterator[Assumption]:
    if field == "mfu":
        yield from _percent(case.terms)
        yield from peaks(case, candidates)
    if field in ("mfu", "tflops_per_gpu", "model_flops"):
        yield from _convention(case.terms)
        yield from _query_groups(case.terms)
    if field != "model_flops":
        yield from _other_rows(case, candidates, field)
    if field in ("mfu", "tflops_per_gpu", "model_flops"):
        yield from _vocabulary(case.terms, candidates)
        yield from _other_models(case, candidates)


def _pairs(case: Case, field: str, candidates: Candidates) -> Iterator[Assumption]:
    if field not in ("mfu", "tflops_per_gpu"):
        return
    for first in _convention(case.terms):
        changed = dataclasses.replace(case, terms=first.terms)
        rest = [*_vocabulary(first.terms, candidates), *_query_groups(first.terms)]
        rest += [*peaks(changed, candidates)] if field == "mfu" else []
        for second in (*rest, *_other_rows(changed, candidates, field)):
            yield second.replace(description=f"{first.description}, and {second.description}")


def _unusual(case: Case, field: str) -> Iterator[Assumption]:
    yield from _decimal_point(case.terms)
    if field in ("mfu", "tflops_per_gpu"):
        if case.reference.tflops_per_gpu is not None:
            yield from _off_by_one_mean(case)
        yield from _own_flops(case)


def peaks(case: Case, candidates: Candidates) -> Iterator[Assumption]:
    """Other peaks: of the GPU types' data sheets, and those that published tables print."""
    own = case.terms.peak_tflops
    for tflops, names in peak_names(candidates).items():
        if tflops != own:
            description = f"a peak of {tflops:g} TFLOP/s ({' or '.join(names)}) instead of {own:g}"
            yield Assumption(description=description, terms=case.terms.replace(peak_tflops=tflops))


def peak_names(candidates: Candidates) -> dict[float, list[str]]:
    """Every known peak in TFLOP/s with the names of the GPU types and dtypes that have it.

    Printed peaks come from the tables of the cases; worked examples may print wrong ones.
    """
    found: dict[float, dict[str, None]] = {}
    for gpu in candidates.gpus.values():
        for peak in gpu.peaks.values():
            found.setdefault(peak.tflops, {})[peak.name] = None
    for case in candidates.cases:
        r = case.reference
        if r.peak_tflops is None or r.kind == "example" or _is_data_sheets(r, candidates.gpus):
            continue
        title = candidates.gpus[r.gpu_type].title if r.gpu_type in candidates.gpus else r.gpu_type
        found.setdefault(r.peak_tflops, {})[f"printed for {title} {r.dtype.upper()}"] = None
    return {tflops: list(names) for tflops, names in found.items()}


def _is_data_sheets(reference: Reference, gpus: Mapping[str, hardware.GpuType]) -> bool:
    known = hardware.peak(reference.gpu_type, reference.dtype, gpus)
    return known is not None and known.tflops == reference.peak_tflops


def _percent(terms: Terms) -> Iterator[Assumption]:
    for factor in (100, 0.01):
        yield Assumption(description="percentage and fraction swapped", terms=terms, factor=factor)


def _convention(terms: Terms) -> Iterator[Assumption]:
    if terms.model is not None:
        other = "causal" if terms.convention == "full" else "full"
        description = f"{other} attention instead of {terms.convention} in the FLOPs"
        yield Assumption(description=description, terms=terms.replace(convention=other))


def _query_groups(terms: Terms) -> Iterator[Assumption]:
    if terms.model is None:
        return
    own, heads = terms.model.query_groups, terms.model.heads
    divisors = [n for n in range(1, heads + 1) if heads % n == 0 and n != own]
    for groups in sorted(divisors, key=lambda n: (max(n / own, own / n), n)):
        yield Assumption(
            description=f"{groups} query groups instead of {own}",
            terms=terms.replace(model=terms.model.replace(query_groups=groups)),
        )


def _other_rows(case: Case, candidates: Candidates, field: str) -> Iterator[Assumption]:
    """Batch size, step time or GPUs of other rows of the same size: first with the same dtype, then with others."""
    r, terms = case.reference, case.terms
    rows = [c for c in candidates.cases if c.workload == case.workload and c.reference.size == r.size]
    same = [c for c in rows if (c.reference.dtype, c.reference.gpu_type) == (r.dtype, r.gpu_type)]
    others = [c for c in rows if c.reference.dtype != r.dtype and c.reference.gpus == r.gpus]
    for other in same:
        if other.terms.batch not in (None, terms.batch):
            description = (
                f"the global batch size {other.terms.batch} of {other.terms.gpus} GPUs instead of {terms.batch}"
            )
            yield Assumption(description=description, terms=terms.replace(batch=other.terms.batch))
    for other in (*same, *others):
        if other.terms.step_time_s not in (None, terms.step_time_s):
            description = f"the step time of {_row(other, r.dtype)}, {other.terms.step_time_s:g} s"
            yield Assumption(description=description, terms=terms.replace(step_time_s=other.terms.step_time_s))
    for other in same if field in ("mfu", "tflops_per_gpu") else ():
        if other.terms.gpus != terms.gpus:
            description = f"{other.terms.gpus} GPUs instead of {terms.gpus}"
            yield Assumption(description=description, terms=terms.replace(gpus=other.terms.gpus))


def _row(case: Case, dtype: str) -> str:
    r = case.reference
    return f"{r.gpus} GPUs" if r.dtype == dtype else f"the {r.dtype} run"


def _vocabulary(terms: Terms, candidates: Candidates) -> Iterator[Assumption]:
    if terms.model is None:
        return
    for size, owner in candidates.vocabularies.items():
        if size != terms.model.vocab_size:
            yield Assumption(
                description=f"the vocabulary of {owner} ({size}) instead of {terms.model.vocab_size}",
                terms=terms.replace(model=terms.model.replace(vocab_size=size)),
            )


def _other_models(case: Case, candidates: Candidates) -> Iterator[Assumption]:
    """Other model shapes of the workload: other sizes, or other rows of the size (proxies differ in layers)."""
    seen = {case.terms.model}
    for other in candidates.cases:
        if other.workload == case.workload and other.terms.model not in seen and other.terms.model is not None:
            seen.add(other.terms.model)
            description = f"the model FLOPs of {other.reference.size} with {other.terms.model.layers} layers"
            yield Assumption(description=description, terms=case.terms.replace(model=other.terms.model))


def _off_by_one_mean(case: Case) -> Iterator[Assumption]:
    """A mean over the measurement window that was divided by one step too many or too few."""
    if case.window is None:
        return
    steps = case.window[1] - case.window[0] + 1
    for divisor in (steps + 1, steps - 1):
        if divisor > 0:
            description = f"the sum over the window's {steps} steps divided by {divisor}"
            yield Assumption(description=description, terms=case.terms, factor=steps / divisor)


def _decimal_point(terms: Terms) -> Iterator[Assumption]:
    for factor in (10, 0.1, 1000, 0.001):
        yield Assumption(description="a misplaced decimal point", terms=terms, factor=factor)


def _own_flops(case: Case) -> Iterator[Assumption]:
    stated = case.reference.model_flops
    if stated is not None:
        description = f"the stated {stated:g} model FLOPs per sample, which differ from the formula"
        yield Assumption(description=description, terms=case.terms.replace(model=None, flops=stated))


def _rounds_to(value: float, published: float, field: str) -> bool:
    """Whether `value` rounds to `published` at its printed digits. MFU is printed in percent."""
    scale = 100 if field == "mfu" else 1
    digits = len(f"{published * scale:.6f}".rstrip("0").partition(".")[2])
    return bool(abs(value * scale - published * scale) <= 0.5 * 10**-digits)
