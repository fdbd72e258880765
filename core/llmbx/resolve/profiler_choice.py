"""Choose the profiler of the profiled steps: the one that the user names, else the workload's first that works here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config.request import Request
from ..errors import UsageError
from ..model import Finding, Obstacle, Profiler, ProfileSpec, RunSpec
from .startable import check_settings_used

if TYPE_CHECKING:
    from ..plugins.manager import Plugins
    from .layers import Layers

ORIGIN = "profile.tool"
"""Key of the profiler's origin."""
FIRST_OF = "first that works of "
INSTEAD_OF = "instead of "
"""Starts of the origin of a profiler that the user did not choose: before and after `usable_profiler` replaced it."""


def chosen_profiler(layers: Layers, plugins: Plugins) -> str:
    """Return the profiler of a request and record its origin. Raises `UsageError` if no installed one records steps.

    A user chooses it with `--tool`, `--with`, or an option of the profiler; the others are defaults.
    """
    request = layers.request
    if request.profile_tool:
        return str(layers.note(ORIGIN, request.profile_tool, "--tool"))
    names = _of_workload(request.workload, request.plugin, plugins)
    if not names:
        raise UsageError("no installed profiler records steps: install a plugin that provides one")
    if origin := _asked(names[0], request):
        return str(layers.note(ORIGIN, names[0], origin))
    return str(layers.note(ORIGIN, names[0], f"{FIRST_OF}{', '.join(names)}"))


def usable_profiler(spec: RunSpec, plugins: Plugins) -> RunSpec:
    """Return the specification with a profiler that can record its steps here; `replaced_profiler` reports another one.

    Unchanged if the user chose the profiler, or if none can: the rules then report what is missing.
    """
    profile = spec.profile
    if profile is None or not spec.origins.get(ORIGIN, "").startswith(FIRST_OF):
        return spec
    obstacle = plugins.obstacle(profile.tool, spec)
    if obstacle is None:
        return spec
    for name in _of_workload(spec.workload, spec.plugin, plugins):
        if name == profile.tool:
            continue
        changed = _with_tool(spec, name, obstacle, plugins)
        if plugins.obstacle(name, changed) is None:
            return changed.replace(findings=(*changed.findings, *check_settings_used(changed, plugins)))
    return spec


def replaced_profiler(spec: RunSpec, plugins: Plugins) -> list[Finding]:
    """Return a warning if the profiler replaces another one, with what that one would add and how to get it."""
    if spec.profile is None or not spec.origins.get(ORIGIN, "").startswith(INSTEAD_OF):
        return []
    before = _of_workload(spec.workload, spec.plugin, plugins)[0]
    obstacle = plugins.obstacle(before, spec)
    if obstacle is None:  # this record is started again, and the machine has got it meanwhile
        return []
    problem = f"{obstacle.problem}, so {spec.profile.tool} profiles the steps"
    adds = f"{before} would add {obstacle.adds}: " if obstacle.adds else ""
    return [Finding(rule="profiler", problem=problem, fix=adds + obstacle.fix, warning=True)]


def effects(profilers: Mapping[str, Profiler]) -> dict[str, Any]:
    """Return the fields of a specification that say what its profilers change in the measured run."""
    return {
        "disturbed": tuple(f"the profiler {name} changes the step time" for name, facts in profilers.items()
                           if facts.disturbs == "time" and not facts.traces),
        "inflated": tuple(f"the profiler {name} changes the memory: its peak is not that of a run without it"
                          for name, facts in profilers.items() if facts.disturbs == "memory"),
    }  # fmt: skip


def _of_workload(workload: str, plugin: str | None, plugins: Plugins) -> list[str]:
    """The installed profilers that record steps of the workload; the first one if it does not name any."""
    named = plugins.workload(workload, plugin).profilers
    installed = [name for name in plugins.profilers() if not named or name in named]
    recorders = [name for name in installed if plugins.profiler(name).takes_steps]
    return sorted(recorders, key=named.index) if named else recorders[:1]


def _asked(profiler: str, request: Request) -> str:
    """How the user asked for the default profiler without `--tool`; empty if not at all."""
    if profiler in request.wrappers:
        return "--with"
    return f"an option of {profiler}" if any(request.plugin_settings.get(profiler, {}).values()) else ""


def _with_tool(spec: RunSpec, name: str, obstacle: Obstacle, plugins: Plugins) -> RunSpec:
    """The specification with the profiler `name` instead of the one that has the obstacle."""
    assert spec.profile is not None, "the caller has a profile"
    before = spec.profile.tool
    profilers = tuple(name if profiler == before else profiler for profiler in spec.profilers)
    changed: RunSpec = spec.replace(
        profile=spec.profile.replace(tool=name),
        profilers=profilers,
        origins={**spec.origins, ORIGIN: f"{INSTEAD_OF}{before}: {obstacle.problem}"},
        **effects({profiler: plugins.profiler(profiler) for profiler in profilers}),
    )
    return changed


def profilers_of(layers: Layers, plugins: Plugins, profile: ProfileSpec | None) -> dict[str, Profiler]:
    """Return the run's profilers in order, with their properties: `--with`, then those enabled by their settings."""
    enabled = [name for name, values in layers.plugin_settings.items() if values.get("enabled") is True]
    names = [*layers.request.wrappers, *(name for name in enabled if name in plugins.profilers())]
    names += [profile.tool] if profile else []
    return {name: plugins.profiler(name) for name in dict.fromkeys(names)}
