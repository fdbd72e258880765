"""Predict step time, throughput and memory of a configuration, with intervals and what they rest on."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from llmbx.api import Value

from .atlas import table
from .atlas.near import Neighbours, generation
from .atlas.row import OWN, Row
from .case import Case
from .cost import memory
from .cost.rates import LOW
from .cost.roofline import model_flops, seconds_at_peak
from .regression.posterior import Posterior
from .regression.shipped import LEVEL, STACK, calibration, familiarity, kind, usable

COMPUTE = (
    "gemm",
    "small gemm",
    "experts",
    "attention",
    "elementwise",
    "routing",
    "quantize",
    "weights",
    "recompute",
)
COMMUNICATION = ("tensor parallel", "context parallel", "expert parallel", "data parallel", "pipeline")
ALIKE = {"dense": "without experts", "experts": "with experts"}
WIDEST = 5.0
"""An interval whose ends differ by more than this factor says nothing: the value is then unknown."""

OLDER = 1.0
"""Years before the oldest published figure from which on a step time is predicted: older kernels are other kernels."""

FURTHEST = 8
"""Times the GPUs of the largest published figure up to which a step time is predicted."""


class Estimate(Value, frozen=True, kw_only=True):
    """A value with its interval; all None if it is unknown."""

    value: float | None
    low: float | None
    high: float | None
    level: float = LEVEL


class Breakdown(Value, frozen=True, kw_only=True):
    """The seconds of a step by kind of work; their sum is the step time.

    `compute` has the parts, `exposed_communication` what computation does not hide, by kind; `waiting` is what grows
    with the number of GPUs alone.
    """

    compute_s: float
    compute: dict[str, float]
    exposed_communication_s: float
    exposed_communication: dict[str, float]
    bubble_s: float
    optimizer_s: float
    host_s: float
    waiting_s: float


class Nearest(Value, frozen=True, kw_only=True):
    """The published configuration that is nearest to the requested one, and its distance."""

    distance: float
    differs_in: dict[str, float]
    model: str
    gpu_type: str
    gpus: int
    dtype: str | None
    step_time_s: float | None
    source: str
    release: str
    place: str


class Basis(Value, frozen=True, kw_only=True):
    """The figures that the prediction was calibrated on; `own` of them are the user's, `same_…` those of its kind."""

    rows: int
    own: int
    sources: dict[str, int]
    same_model: int
    same_gpu_type: int
    same_family: int
    same_stack: int
    family: str
    stack: str

    def words(self) -> str:
        """How many figures there are, and how many of them are of the same kind."""
        own = f" ({self.own} of them your own)" if self.own else ""
        return (f"{self.rows} published figures{own}: {self.same_model} of this model, {self.same_gpu_type} of this "
                f"GPU type, {self.same_family} of {self.family} models, {self.same_stack} of {self.stack}")  # fmt: skip


class Prediction(Value, frozen=True, kw_only=True):
    """A prediction. `configuration_from` says where values come from that the user did not set."""

    model: str
    configuration: dict[str, Any]
    configuration_from: str
    step_time_s: Estimate
    tflops_per_gpu: Estimate
    tokens_per_s_per_gpu: Estimate
    memory_gb: Estimate
    flops_convention: str
    terms: Breakdown | None
    memory_terms_gb: dict[str, float] | None
    calibrated_on: Basis
    nearest: Nearest | None
    unknown_because: str | None
    notes: tuple[str, ...] = ()


OWN_LAYOUT_NOTE = "no recipe has this layout for this GPU type: the interval is that of untuned layouts"
UNKNOWN = Estimate(value=None, low=None, high=None)


class Predictor:
    """Predictions that are calibrated on published figures, and the user's own.

    `memory_gb` has the memory of GPU types that the user changed.
    """

    def __init__(self, rows: Sequence[Row], memory_gb: Mapping[str, float | None] | None = None) -> None:
        self.calibration = calibration()
        self._memory_gb = memory_gb or {}
        self._only_shipped = tuple(rows) == tuple(table.shipped())
        self.used = usable(rows)

    @functools.cached_property
    def posterior(self) -> Posterior:
        """What the figures say."""
        cases, seconds = tuple(case for _, case, _ in self.used), tuple(time for *_, time in self.used)
        return _learned(cases, seconds, self._only_shipped)

    def limit_gb(self, gpu_type: str) -> float | None:
        """Memory of a GPU type in GB: the user's own, else that of the rates."""
        return self._memory_gb.get(gpu_type) or memory.limit_gb(gpu_type)

    def nearest(self, case: Case) -> tuple[Row, dict[str, float]] | None:
        """The nearest figure, and what differs."""
        if not self.used:
            return None
        index, differing = self._neighbours.nearest(case)
        return self.used[index][0], differing

    @functools.cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours([published for _, published, _ in self.used])

    def posterior_of(self, case: Case) -> Posterior:
        """What the figures say about one configuration: a figure of exactly this one is believed, the one of the
        nearest release, although the others do not expect it.
        """
        exact = self._exact(case)
        return self.posterior if exact is None else self.posterior.trusting(exact)

    def _exact(self, case: Case) -> int | None:
        """The figure of exactly this configuration: the user's own, else of the nearest release; None without any."""

        def rank(index: int) -> tuple[bool, float]:
            row, published, _ = self.used[index]
            return row.release != OWN, abs(published.when - case.when)

        return min(self._cells.get(cell(case), ()), key=rank, default=None)

    @functools.cached_property
    def _cells(self) -> dict[tuple[object, ...], list[int]]:
        """The positions of the figures of each configuration."""
        positions: dict[tuple[object, ...], list[int]] = {}
        for index, (_, published, _) in enumerate(self.used):
            positions.setdefault(cell(published), []).append(index)
        return positions

    def predict(self, case: Case, base: str, posterior: Posterior | None = None) -> Prediction:
        """The prediction of one configuration. `base` says where its values come from.

        `posterior` is what the figures say; default: `posterior_of` the configuration.
        """
        case = case.replace(chosen=case.chosen or self._is_published(case))
        near = self.nearest(case)
        needed = self._memory(case)
        reason = self._too_large(case, needed) or self._why_unknown(case)
        step, terms = UNKNOWN, None
        if reason is None:
            believed = posterior or self.posterior_of(case)
            step = self._step(case, believed)
            terms = breakdown(believed.terms(case), step.value)
            reason, step, terms = _narrow_enough(step, terms)
        return Prediction(
            model=case.model.name, configuration=configuration(case), configuration_from=base, step_time_s=step,
            tflops_per_gpu=_rate(step, case.tokens_per_gpu * model_flops(case) / 1e12),
            tokens_per_s_per_gpu=_rate(step, case.tokens_per_gpu), flops_convention="causal", terms=terms,
            memory_gb=Estimate(value=needed.total_gb, low=needed.low_gb, high=needed.high_gb) if needed else UNKNOWN,
            memory_terms_gb=needed.terms_gb if needed else None, calibrated_on=self._basis(case),
            nearest=_nearest(near), unknown_because=reason, notes=self._notes(case, needed, step),
        )  # fmt: skip

    def _memory(self, case: Case) -> memory.Memory | None:
        """The peak memory. What a published figure ran with was in the GPU: the lower end is at most its memory."""
        needed, limit = memory.estimate(case), self.limit_gb(case.gpu_type)
        if needed is None or limit is None or not self._has_run(case):
            return needed
        return needed.replace(low_gb=min(needed.low_gb, limit))

    def _has_run(self, case: Case) -> bool:
        """Whether a figure has this model and layout on as few GPUs with as long sequences."""
        return any(
            (published.model.name, published.gpu_type, published.degrees)
            == (case.model.name, case.gpu_type, case.degrees)
            and published.model.layers >= case.model.layers
            and published.gpus <= case.gpus
            and published.seq >= case.seq
            for _, published, _ in self.used
        )

    @staticmethod
    def _same_layout(published: Case, case: Case) -> bool:
        key = (case.model.name, case.gpu_type, case.layout)
        return (published.model.name, published.gpu_type, published.layout) == key

    def _too_large(self, case: Case, needed: memory.Memory | None) -> str | None:
        """That a configuration does not fit the memory even at the lower end of what it needs."""
        limit = self.limit_gb(case.gpu_type)
        if needed is None or limit is None or needed.low_gb <= limit:
            return None
        return (f"does not fit: it needs at least {needed.low_gb:.0f} GB, and {case.gpu_type} has "
                f"{limit:.0f} GB")  # fmt: skip

    def _notes(self, case: Case, needed: memory.Memory | None, step: Estimate) -> tuple[str, ...]:
        notes, limit = [], self.limit_gb(case.gpu_type)
        if needed is not None and limit is not None and needed.low_gb <= limit < needed.total_gb:
            notes.append(f"may not fit: {needed.total_gb:.0f} GB are more than the {limit:.0f} GB of "
                         f"{case.gpu_type}")  # fmt: skip
        if step.value is not None and step.value <= self.least(case) * (1 + 1e-9):
            notes.append(f"limited to {100 * self._share(case):.0f} % of the peak of {case.gpu_type}, the most that is "
                         f"published of its generation in {case.dtype}")  # fmt: skip
        if not self._has_model(case):
            notes.append(f"no figure of {case.model.name} is published: the interval is that of the "
                         f"{self.calibration.models.get(kind(case), 0)} models {ALIKE[kind(case)]} that were left out "
                         "whole")  # fmt: skip
        stacks = dict.fromkeys(published.stack for _, published, _ in self.used)
        if case.stack not in stacks:
            notes.append(f"the stack is {case.stack}, of which there is no figure: its scale is its own, and unknown "
                         f"(calibrated on {', '.join(stacks)})")  # fmt: skip
        return (*notes, *(() if case.chosen else (OWN_LAYOUT_NOTE,)))

    def least(self, case: Case) -> float:
        """The shortest step time that is predicted: no figure has a larger share of the peak."""
        return seconds_at_peak(case) / self._share(case)

    def _share(self, case: Case) -> float:
        """The largest published share of the peak in the same generation and dtype, else in the dtype, else of all."""
        own, dtype = generation(case.gpu_type), LOW.get(case.dtype, "wide")
        shares = self._shares
        return shares.get((own, dtype)) or shares.get(("", dtype)) or max(shares.values(), default=1.0)

    @functools.cached_property
    def _shares(self) -> dict[tuple[str, str], float]:
        """The largest published share of the peak by generation and dtype; an empty generation is all of them."""
        shares: dict[tuple[str, str], float] = {}
        for _, case, seconds in self.used:
            share, dtype = seconds_at_peak(case) / seconds, LOW.get(case.dtype, "wide")
            for key in ((generation(case.gpu_type), dtype), ("", dtype)):
                shares[key] = max(share, shares.get(key, 0.0))
        return shares

    def _why_unknown(self, case: Case) -> str | None:
        generations = {generation(published.gpu_type) for _, published, _ in self.used}
        if generation(case.gpu_type) not in generations:
            return f"no published step time of {case.gpu_type} or its generation states dtype and parallelism"
        most = max(published.gpus for _, published, _ in self.used)
        if case.gpus > FURTHEST * most:
            return f"{case.gpus} GPUs are more than {FURTHEST} times the {most} GPUs of the largest published figure"
        oldest = min(published.when for _, published, _ in self.used)
        if case.when < oldest - OLDER:
            return f"the release is of {case.when:.1f}, and the oldest published figure of {oldest:.1f}"
        if case.model.vocab == 0 and not self._has_model(case):
            return f"the shape of {case.model.name} is not known, and no figure of it is published"
        return self._without_width(case)

    def _without_width(self, case: Case) -> str | None:
        """That nothing tells how wide the interval of a model or a stack without figures is."""
        if self._width(case) is not None:
            return None
        if STACK in self._familiarity(case):
            return (f"no figure of {case.stack} is published, and too few stacks have figures of models "
                    f"{ALIKE[kind(case)]} to measure how far a stack that is left out is off")  # fmt: skip
        count = self.calibration.models.get(kind(case), 0)
        return (f"no figure of {case.model.name} is published, and {count} models {ALIKE[kind(case)]} are too few to "
                "measure how far a model that is left out is off")  # fmt: skip

    def _has_model(self, case: Case) -> bool:
        return any(published.model.name == case.model.name for _, published, _ in self.used)

    def _width(self, case: Case) -> float | None:
        return self.calibration.width(case, self._familiarity(case))

    def _familiarity(self, case: Case) -> str:
        return familiarity(case, (published for _, published, _ in self.used))

    def _step(self, case: Case, posterior: Posterior) -> Estimate:
        mean, deviation = posterior.predict([case])
        half = float(deviation[0]) * (self._width(case) or math.inf)
        learned, exact = float(mean[0]), self._exact(case)
        value = max(learned, self.least(case))
        low, high = max(learned * math.exp(-half), seconds_at_peak(case)), value * math.exp(half)
        printed = [] if exact is None else [self.used[exact][2]]
        return Estimate(value=value, low=min([low, *printed]), high=max([high, *printed]))

    def _is_published(self, case: Case) -> bool:
        """Whether a figure of this model on this GPU type has the layout."""
        return any(self._same_layout(published, case) for _, published, _ in self.used)

    def _basis(self, case: Case) -> Basis:
        sources: dict[str, int] = {}
        for row, *_ in self.used:
            sources[row.source] = sources.get(row.source, 0) + 1
        return Basis(
            rows=len(self.used), own=sum(row.release == OWN for row, *_ in self.used), sources=sources,
            same_model=sum(published.model.name == case.model.name for _, published, _ in self.used),
            same_gpu_type=sum(published.gpu_type == case.gpu_type for _, published, _ in self.used),
            same_family=sum(published.model.family == case.model.family for _, published, _ in self.used),
            same_stack=sum(published.stack == case.stack for _, published, _ in self.used),
            family=case.model.family,
            stack=case.stack,
        )  # fmt: skip


def cell(case: Case) -> tuple[object, ...]:
    """What two figures of one configuration have in common: all but the release, and the parts of the name."""
    names = ("gpu_type", "gpus", "dtype", "gbs", "mbs", "seq", "tp", "pp", "cp", "ep", "etp", "vp", "fsdp", "recompute",
             "task", "stack")  # fmt: skip
    return case.model.name, case.model.layers, *(getattr(case, name) for name in names)


@functools.lru_cache(maxsize=4)
def _learned(cases: tuple[Case, ...], seconds: tuple[float, ...], shipped: bool) -> Posterior:
    fitted = calibration()
    return Posterior(cases, seconds, fitted.coefficients, fitted.scales, outliers=fitted.outliers if shipped else None)


def _narrow_enough(step: Estimate, terms: Breakdown) -> tuple[str | None, Estimate, Breakdown | None]:
    """A step time whose interval is too wide to say anything is unknown."""
    assert step.low is not None and step.high is not None
    if step.high / step.low <= WIDEST:
        return None, step, terms
    return f"the interval is wider than a factor of {WIDEST:g}", UNKNOWN, None


def _rate(step: Estimate, work: float) -> Estimate:
    """Work over the step time: the ends of the interval change places."""
    if step.value is None or step.low is None or step.high is None:
        return UNKNOWN
    return Estimate(value=work / step.value, low=work / step.high, high=work / step.low)


def breakdown(seconds: Mapping[str, float], step_s: float | None = None) -> Breakdown:
    """The terms by kind of work, which add up to `step_s`, or to their own sum."""
    scale = step_s / sum(seconds.values()) if step_s else 1.0
    seconds = {name: scale * value for name, value in seconds.items()}
    compute = {name: seconds[name] for name in COMPUTE if seconds[name] > 0}
    exposed = {name: seconds[name] for name in COMMUNICATION if seconds[name] > 0}
    return Breakdown(
        compute_s=sum(compute.values()), compute=compute, exposed_communication_s=sum(exposed.values()),
        exposed_communication=exposed, bubble_s=seconds["bubble"], optimizer_s=seconds["optimizer"],
        host_s=seconds["host"], waiting_s=seconds["scale"],
    )  # fmt: skip


def configuration(case: Case) -> dict[str, Any]:
    """The configuration as it is printed."""
    names = ("gpu_type", "gpus", "dtype", "gbs", "mbs", "seq", "tp", "pp", "cp", "ep", "etp", "vp", "fsdp", "recompute",
             "task", "stack", "release")  # fmt: skip
    fields = {name: getattr(case, name) for name in names}
    return {"layers": case.model.layers, **fields, "dp": round(case.dp), "ga": round(case.accumulation)}


def _nearest(near: tuple[Row, dict[str, float]] | None) -> Nearest | None:
    if near is None:
        return None
    row, apart = near
    return Nearest(
        distance=sum(apart.values()), differs_in=apart, model=row.model, gpu_type=row.gpu_type, gpus=row.gpus,
        dtype=row.dtype, step_time_s=row.step_time_s, source=row.source, release=row.release, place=row.place,
    )  # fmt: skip
