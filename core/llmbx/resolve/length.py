"""How long it runs and what of it is measured, profiled or traced: these depend on each other."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from ..measure import window
from ..model import ProfileSpec, Recipe, RunSpec, TraceSpec
from .layers import Layers
from .numbering import bounds, fits
from .profiled import profile as profile_of

TRACER = "nccltrace"
"""The plugin that `ENABLE_NCCLTRACE` asks for."""

TRACE_STEPS = 5
"""How many steps a traced run takes: its log grows by gigabytes (the recipes trace five)."""

TRACE_WALLTIME_MINUTES = 15
"""The recipes' time limit of a traced run: a short job starts sooner."""


def length(layers: Layers, recipe: Recipe, world: int, stages: int) -> dict[str, Any]:
    """Steps, window, profile and trace: they depend on each other. `stages` is the number of pipeline stages."""
    profile, trace = profile_of(layers, recipe, world, stages), _trace(layers)
    profilers = _profilers(layers, profile, trace)
    default, origin = recipe.steps, f"recipe {recipe.name}"
    if profile:
        default, origin = max(recipe.profile_total_steps, profile.stop), "a profiled run's length"
    if trace:
        default, origin = TRACE_STEPS, "a traced run's length"
    option = layers.request.steps_option
    steps = layers.find("steps", option) or layers.note("steps", default, origin)
    if steps < 1:
        raise UsageError(f"{option} {steps}: expected a number of at least 1")
    if profile and profile.stop > steps:
        raise UsageError(f"{option} {steps}: the profiled steps {profile.start}-{profile.stop} lie beyond the end")
    measured = _window(layers, recipe)
    return {"steps": steps, "window": measured, "profile": profile, "trace": trace, "profilers": profilers}


def _window(layers: Layers, recipe: Recipe) -> str:
    asked: str | None = layers.find("window")
    if asked is not None:
        return window.check(asked)
    return str(layers.note("window", window.check(recipe.window), f"recipe {recipe.name}"))


def with_fitting_window(spec: RunSpec, layers: Layers, first: int | None) -> RunSpec:
    """The spec with a window that its run can reach, where its log numbers the `first` step so (None: not known).

    A window that was asked for is refused where it cannot be reached; the recipe's gives way to `auto`.
    """
    if fits(spec.window, spec.steps, first):
        return spec
    lowest, highest = bounds(spec.steps, first)
    if layers.find("window") is not None:
        numbers = "" if first is None else f", which its log numbers {lowest} to {highest}"
        raise UsageError(
            f"--window {spec.window}: the run has only {spec.steps} steps{numbers}; name others, or more with "
            f"{layers.request.steps_option}"
        )
    why = f"the run of {spec.steps} steps ends before the recipe's window {spec.window}"
    fitting: RunSpec = spec.replace(window=layers.note("window", "auto", why))
    return fitting


def is_traced(layers: Layers) -> bool:
    """Whether the communication trace was asked for."""
    return bool(layers.find("trace")) or TRACER in layers.request.wrappers


def _trace(layers: Layers) -> TraceSpec | None:
    request = layers.request
    chosen = request.trace_subsystems
    if not is_traced(layers):
        if chosen or request.trace_file_per_rank:
            option = "--trace-subsystems" if chosen else "--trace-file-per-rank"
            raise UsageError(f"{option} says how to trace, and nothing is traced: add --with {TRACER}")
        return None
    extra = {"subsystems": tuple(chosen.upper().split(","))} if chosen else {}
    return TraceSpec(tool=TRACER, file_per_rank=bool(request.trace_file_per_rank), **extra)


def _profilers(layers: Layers, profile: ProfileSpec | None, trace: TraceSpec | None) -> tuple[str, ...]:
    if profile and trace:
        raise UsageError(
            "profiling and the communication trace exclude each other: the trace's log lines would be part of "
            "what is profiled; run them one after the other"
        )
    chosen = [*layers.request.wrappers]
    for tool in (profile.tool if profile else None, trace.tool if trace else None):
        if tool and tool not in chosen:
            chosen.append(tool)
    return tuple(chosen)
