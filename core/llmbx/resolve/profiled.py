"""What of a run is profiled, by options, the recipes' variables and the recipe; for a new run or an old one again."""

from __future__ import annotations

from collections.abc import Mapping

from ..config.request import Request
from ..errors import UsageError
from ..model import Finding, ProfileSpec, Recipe, RunSpec
from ..plugins.manager import Plugins
from . import ranks
from .layers import Layers
from .numbering import fits

GPU_METRICS = "gpu_metrics"
"""The rule of the finding that GPU metrics were asked for without a profile."""

DEFAULT_RANKS = "seed"
"""Those of the recipe, so that a profile is taken as the recipe's own launch takes it: often of all ranks."""


def profile(layers: Layers, recipe: Recipe, world: int, stages: int, plugins: Plugins) -> ProfileSpec | None:
    """What is to be profiled of a run of `world` ranks in `stages` pipeline stages; None when nothing was asked for."""
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
        tool=request.profile_tool or default_tool(plugins),
        gpu_metrics=bool(layers.find("gpu_metrics")),
        name=recipe.profile_name,
        keep_secrets=bool(request.keep_secrets),
    )


def default_tool(plugins: Plugins) -> str:
    """The profiler of `llmbx profile` where none is named: the first that records steps. Raises `UsageError`."""
    for name in plugins.profilers():
        if plugins.profiler(name).takes_steps:
            return name
    raise UsageError("no profiler here records steps: install a plugin that has one")


def without_profile(layers: Layers, asked: ProfileSpec | None) -> tuple[Finding, ...]:
    """What was asked of a profile (by the recipes' variables, say) that this run does not take; as a warning."""
    if asked is not None or not layers.find("gpu_metrics"):
        return ()
    problem = f"{layers.origins['gpu_metrics']} asks for GPU metrics, and nothing is profiled"
    return (Finding(rule=GPU_METRICS, problem=problem, fix="add --profile, or unset it", warning=True),)


def again(
    spec: RunSpec, recipe: Recipe, request: Request, environ: Mapping[str, str], plugins: Plugins,
    first: int | None = None,
) -> RunSpec:  # fmt: skip
    """An earlier run's specification with the profile that `request` asks for, as long as profiled runs are.

    `first` is the number that its log gives the first step, where that is known.
    """
    layers = Layers(request, environ, None)
    asked = profile(layers, recipe, spec.gpus, spec.parallelism.pp, plugins)
    assert asked is not None, "the caller asks for a profile"
    steps = request.steps or max(recipe.profile_total_steps, asked.stop)
    if asked.stop > steps:
        raise UsageError(f"--max-steps {steps}: the profiled steps {asked.start}-{asked.stop} lie beyond the end")
    before = {spec.profile.tool if spec.profile else None, spec.trace.tool if spec.trace else None, asked.tool}
    layers.note("steps", steps, "--max-steps" if request.steps else "a profiled run's length")
    return spec.replace(
        profile=asked,
        trace=None,
        secrets=spec.secrets if asked.keep_secrets else (),
        profilers=(*(name for name in spec.profilers if name not in before), asked.tool),
        steps=steps,
        window=spec.window if fits(spec.window, steps, first) else "auto",
        origins={**spec.origins, **layers.origins},
    )


def _steps(layers: Layers, recipe: Recipe) -> tuple[int, int]:
    request = layers.request
    start, stop = _span(request.profile_steps or recipe.profile_steps)
    if request.profile_steps is None:
        first, last = layers.find("profile_start"), layers.find("profile_stop")
        start, stop = start if first is None else first, stop if last is None else last
    if not 0 <= start < stop:
        raise UsageError(f"profiled steps {start}-{stop}: expected A-B with A < B (half-open, counted from zero)")
    return start, stop


def _span(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (dash and first.strip().isdigit() and last.strip().isdigit()):
        raise UsageError(f"profiled steps {text!r}: expected A-B, for example 45-50")
    return int(first), int(last)
