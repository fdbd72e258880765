"""Hooks: what a run is expected to measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmbx.api import Bounds, Expected, RunSpec, UsageError, hookimpl

if TYPE_CHECKING:
    from llmbx.api.verbs import Install

    from .prediction import Estimate, Prediction


FREE = ("overrides", "extra")
"""Settings of the frameworks with arguments of their own, which may change anything."""


@hookimpl
def predict_run(spec: RunSpec, install: Install) -> Expected | None:
    """Predict step time, throughput and memory from published figures and the user's own (docs/prediction.md)."""
    from .cost.rates import known

    changed = next((spec.settings[name] for name in FREE if spec.settings.get(name)), None)
    if changed is not None:
        return Expected(unknown_because=f"the framework's configuration is changed ({changed})")
    if spec.gpu_type not in known():
        unknown = f"no figure of {spec.gpu_type} is published"
        return Expected(memory_gb=_memory(spec), unknown_because=unknown)
    from .run import predict

    try:
        prediction = predict(spec, install.path)
    except UsageError as error:
        return Expected(unknown_because=str(error))
    return Expected(
        step_time_s=_bounds(prediction.step_time_s), tokens_per_s_per_gpu=_bounds(prediction.tokens_per_s_per_gpu),
        memory_gb=_bounds(prediction.memory_gb), source=_source(prediction), unknown_because=prediction.unknown_because,
    )  # fmt: skip


def _memory(spec: RunSpec) -> Bounds:
    """The memory, which does not depend on the rates of the GPU type."""
    from .cost.memory import estimate
    from .run import case_of

    try:
        needed = estimate(case_of(spec))
    except UsageError:
        return Bounds()
    if needed is None:
        return Bounds()
    return Bounds(value=needed.total_gb, low=needed.low_gb, high=needed.high_gb)


def _bounds(estimate: Estimate) -> Bounds:
    return Bounds(value=estimate.value, low=estimate.low, high=estimate.high, level=estimate.level)


def _source(prediction: Prediction) -> str:
    return f"llmbx predict, from {prediction.calibrated_on.words()}"
