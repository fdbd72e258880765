"""Resolve steps, window and what is profiled, from options, environment variables and the recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config.profiles import PROFILE_ORIGIN
from ..config.request import Request
from ..errors import UsageError
from ..measure import window
from ..model import ProfileSpec, Recipe, RunSpec, TraceSpec
from . import ranks
from .layers import Layers, settings_of_plugin
from .numbering import bounds, reaches
from .profiler_choice import chosen_profiler, effects, profilers_of
from .startable import check_settings_used, completed

if TYPE_CHECKING:
    from ..plugins.manager import Plugins


def length(layers: Layers, recipe: Recipe, world: int, stages: int, plugins: Plugins) -> dict[str, Any]:
    """Resolve steps, window and profilers, which depend on each other.

    `world` is the number of ranks, `stages` the number of pipeline stages. Raises `UsageError` if they contradict.
    """
    profiled = profile(layers, recipe, world, stages, plugins)
    chosen = profilers_of(layers, plugins, profiled)
    trace = next((TraceSpec(tool=name) for name, facts in chosen.items() if facts.traces), None)
    if profiled and trace:
        raise UsageError(
            f"profiling cannot be combined with {trace.tool}: the profile would include the trace's logging; "
            "use two runs"
        )
    default, origin = recipe.steps, f"recipe {recipe.name}"
    if profiled:
        default, origin = max(recipe.profile_total_steps, profiled.stop), "a profiled run's length"
    for name, facts in chosen.items():
        if facts.steps is not None:
            default, origin = facts.steps, f"default with {name}"
    option = layers.request.steps_option
    steps = layers.find("steps", option) or layers.note("steps", default, origin)
    if steps < 1:
        raise UsageError(f"{option} {steps}: expected an integer >= 1")
    if profiled and profiled.stop > steps:
        raise UsageError(
            f"{option} {steps}: the profiled steps {profiled.start}-{profiled.stop} end after the last step"
        )
    measured = _window(layers, recipe)
    return {
        "steps": steps, "window": measured, "profile": profiled, "trace": trace, "profilers": tuple(chosen),
        **effects(chosen),
    }  # fmt: skip


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


DEFAULT_RANKS = "seed"
"""The recipe's ranks (often all), so that a profile covers the same ranks as with the recipe's own launch script."""


def profile(layers: Layers, recipe: Recipe, world: int, stages: int, plugins: Plugins) -> ProfileSpec | None:
    """Return what to profile in a run of `world` ranks and `stages` pipeline stages; None if nothing was requested."""
    request = layers.request
    if not (layers.find("profile") or request.profile_steps):
        return None
    start, stop = _steps(layers, recipe)
    selector = request.profile_ranks or DEFAULT_RANKS
    chosen = ranks.choose(selector, world, stages, recipe.profile_ranks)
    layers.note("profile.ranks", chosen, f"--ranks {selector}" if request.profile_ranks else f"recipe {recipe.name}")
    return ProfileSpec(
        start=start,
        stop=stop,
        ranks=chosen,
        tool=chosen_profiler(layers, plugins),
        name=recipe.profile_name,
        keep_secrets=bool(request.keep_secrets),
    )


def again(
    spec: RunSpec, recipe: Recipe, request: Request, environ: Mapping[str, str], plugins: Plugins,
    first: int | None = None,
) -> RunSpec:  # fmt: skip
    """Return an earlier run's specification with the requested profile and the length of a profiled run.

    `first` is the number of the first step in its log, if known. Raises `UsageError` if the steps are too few.
    """
    layers = Layers(request, environ, None)
    new = profile(layers, recipe, spec.gpus, spec.parallelism.pp, plugins)
    assert new is not None, "the caller requests a profile"
    steps = request.steps or max(recipe.profile_total_steps, new.stop)
    if new.stop > steps:
        raise UsageError(f"--max-steps {steps}: the profiled steps {new.start}-{new.stop} end after the last step")
    before = {spec.profile.tool if spec.profile else None, spec.trace.tool if spec.trace else None, new.tool}
    layers.note("steps", steps, "--max-steps" if request.steps else "a profiled run's length")
    profilers = (*(name for name in spec.profilers if name not in before), new.tool)
    changed: RunSpec = spec.replace(
        profile=new,
        trace=None,
        secrets=spec.secrets if new.keep_secrets else (),
        profilers=profilers,
        steps=steps,
        window=spec.window if reaches(spec.window, steps, first) else "auto",
        **effects({name: plugins.profiler(name) for name in profilers}),
        **_settings_again(spec, profilers, layers, plugins),
    )
    changed = completed(changed, plugins)
    of_settings = check_settings_used(spec, plugins)
    kept = (finding for finding in spec.findings if finding not in of_settings)
    return changed.replace(findings=(*kept, *check_settings_used(changed, plugins)))


def _settings_again(
    spec: RunSpec, profilers: tuple[str, ...], layers: Layers, plugins: Plugins
) -> dict[str, dict[str, Any]]:
    """Return plugin settings and origins for a repeated run with these profilers.

    Profilers that record steps have the settings of this command and of the earlier run's cluster profile, not the
    options and variables of then. Settings of other profilers are left out if the run does not use them any more.
    """
    settings, origins = dict(spec.plugin_settings), dict(spec.origins)
    for name in [name for name in plugins.settings if name in plugins.profilers()]:
        records = plugins.profiler(name).takes_steps
        if name in profilers and not records:
            continue
        kept = {}
        for field, value in settings.pop(name, {}).items():
            places = [place for place in origins if f"{place}.".startswith(f"{name}.{field}.")]
            if records and all(origins[place].startswith(PROFILE_ORIGIN) for place in places):
                kept[field] = value
            else:
                origins = {place: origin for place, origin in origins.items() if place not in places}
        own = settings_of_plugin(layers, name, plugins) if records else {}
        if values := {**kept, **own}:
            settings[name] = values
    return {"plugin_settings": settings, "origins": {**origins, **layers.origins}}


def _steps(layers: Layers, recipe: Recipe) -> tuple[int, int]:
    request = layers.request
    start, stop = _span(request.profile_steps or recipe.profile_steps)
    if request.profile_steps is None:
        first, last = layers.find("profile_start"), layers.find("profile_stop")
        start, stop = start if first is None else first, stop if last is None else last
    if not 0 <= start < stop:
        raise UsageError(f"--steps {start}-{stop}: expected A-B with A < B (half-open, counted from zero)")
    return start, stop


def _span(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (dash and first.strip().isdigit() and last.strip().isdigit()):
        raise UsageError(f"--steps {text!r}: expected A-B, for example 45-50")
    return int(first), int(last)
