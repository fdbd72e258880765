"""Resolve the number of steps and which of them are measured, profiled or traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..measure import window
from ..model import Profiler, ProfileSpec, Recipe, RunSpec, TraceSpec
from .numbering import bounds, reaches
from .profiled import profile as profile_of
from .profiler_choice import effects

if TYPE_CHECKING:
    from ..plugins.manager import Plugins
    from .layers import Layers


def length(layers: Layers, recipe: Recipe, world: int, stages: int, plugins: Plugins) -> dict[str, Any]:
    """Resolve steps, window and profilers, which depend on each other.

    `world` is the number of ranks, `stages` the number of pipeline stages. Raises `UsageError` if they contradict.
    """
    profile = profile_of(layers, recipe, world, stages, plugins)
    chosen = profilers_of(layers, plugins, profile)
    trace = next((TraceSpec(tool=name) for name, facts in chosen.items() if facts.traces), None)
    if profile and trace:
        raise UsageError(
            f"profiling cannot be combined with {trace.tool}: the profile would include the trace's logging; "
            "use two runs"
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
        raise UsageError(f"{option} {steps}: expected an integer >= 1")
    if profile and profile.stop > steps:
        raise UsageError(f"{option} {steps}: the profiled steps {profile.start}-{profile.stop} end after the last step")
    measured = _window(layers, recipe)
    return {
        "steps": steps, "window": measured, "profile": profile, "trace": trace, "profilers": tuple(chosen),
        **effects(chosen),
    }  # fmt: skip


def profilers_of(layers: Layers, plugins: Plugins, profile: ProfileSpec | None) -> dict[str, Profiler]:
    """Return the run's profilers in order, with their properties: `--with`, then those enabled by their settings."""
    enabled = [name for name, values in layers.plugin_settings.items() if values.get("enabled") is True]
    names = [*layers.request.wrappers, *(name for name in enabled if name in plugins.profilers())]
    names += [profile.tool] if profile else []
    return {name: plugins.profiler(name) for name in dict.fromkeys(names)}


def _window(layers: Layers, recipe: Recipe) -> str:
    requested: str | None = layers.find("window")
    if requested is not None:
        return window.check(requested)
    return str(layers.note("window", window.check(recipe.window), f"recipe {recipe.name}"))


def with_reachable_window(spec: RunSpec, layers: Layers, first: int | None) -> RunSpec:
    """Return the spec with a window that the run reaches; `first` is the number of its first step (None: unknown).

    If the run does not reach the recipe's window, it becomes `auto`; for a requested window `UsageError` is raised.
    """
    if reaches(spec.window, spec.steps, first):
        return spec
    lowest, highest = bounds(spec.steps, first)
    if layers.find("window") is not None:
        numbers = "" if first is None else f", numbered {lowest} to {highest} in its log"
        raise UsageError(
            f"--window {spec.window}: the run has only {spec.steps} steps{numbers}; use an earlier window or a larger "
            f"{layers.request.steps_option}"
        )
    why = f"the run of {spec.steps} steps ends before the recipe's window {spec.window}"
    changed: RunSpec = spec.replace(window=layers.note("window", "auto", why))
    return changed
