"""How long it runs and what of it is measured, profiled or traced: these depend on each other."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from ..measure import window
from ..model import Profiler, ProfileSpec, Recipe, RunSpec, TraceSpec
from ..plugins.manager import Plugins
from .layers import Layers
from .numbering import bounds, fits
from .profiled import profile as profile_of


def length(layers: Layers, recipe: Recipe, world: int, stages: int, plugins: Plugins) -> dict[str, Any]:
    """Steps, window and profilers: they depend on each other. `stages` is the number of pipeline stages."""
    profile = profile_of(layers, recipe, world, stages, plugins)
    chosen = profilers_of(layers, plugins, profile)
    trace = next((TraceSpec(tool=name) for name, facts in chosen.items() if facts.traces), None)
    if profile and trace:
        raise UsageError(
            f"profiling and the trace of {trace.tool} exclude each other: the trace's log lines would be part of what "
            "is profiled; run them one after the other"
        )
    default, origin = recipe.steps, f"recipe {recipe.name}"
    if profile:
        default, origin = max(recipe.profile_total_steps, profile.stop), "a profiled run's length"
    for name, facts in chosen.items():
        if facts.steps is not None:
            default, origin = facts.steps, f"default with {name}"
    option = layers.request.steps_option
    steps = layers.find("steps", option) or layers.note("steps", default, origin)
    if steps < 1:
        raise UsageError(f"{option} {steps}: expected a number of at least 1")
    if profile and profile.stop > steps:
        raise UsageError(f"{option} {steps}: the profiled steps {profile.start}-{profile.stop} lie beyond the end")
    measured = _window(layers, recipe)
    return {
        "steps": steps, "window": measured, "profile": profile, "trace": trace, "profilers": tuple(chosen),
        "disturbed": tuple(facts.disturbs for facts in chosen.values() if facts.disturbs and not facts.traces),
    }  # fmt: skip


def profilers_of(layers: Layers, plugins: Plugins, profile: ProfileSpec | None) -> dict[str, Profiler]:
    """The profilers of the run in order, each with its facts: those of `--with`, then those that settings enable."""
    enabled = [name for name, given in layers.plugin_settings.items() if given.get("enabled") is True]
    names = [*layers.request.wrappers, *(name for name in enabled if name in plugins.profilers())]
    names += [profile.tool] if profile else []
    return {name: plugins.profiler(name) for name in dict.fromkeys(names)}


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
