"""Without `--tool`, the workload's first profiler that this machine can use; a profiler that the user chose is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import pluggy
import pytest

import llmbx.builtin
import llmbx_toy.plugin as toy
from llmbx import hookimpl, hookspecs
from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.errors import UsageError
from llmbx.model import Finding, Launch, Obstacle, Option, Profiler, RunSpec, Settings, Workload
from llmbx.plugins.framework import Framework
from llmbx.plugins.manager import Plugins
from llmbx.resolve import resolve
from llmbx.resolve.profiled import again
from llmbx.resolve.profiler_choice import ORIGIN, replaced_profiler, usable_profiler

LISTED = ("best", "plain")
OBSTACLE = Obstacle(problem="best is not on PATH", fix="install it", adds="the time of each kernel")
Chosen = Callable[..., RunSpec]


class BestSettings(Settings, frozen=True):
    plugin: ClassVar[str] = "best"
    counters: Annotated[bool, Option(help="Sample counters.", name="--counters", variables=("COUNTERS",))] = False

    @classmethod
    def unused(cls, spec: RunSpec) -> list[Finding]:
        return [Finding(rule="counters", problem="COUNTERS has no effect", fix="use --tool best", warning=True)]


class Recorder:
    """A profiler that records steps."""

    def __init__(self, obstacle: Obstacle | None = None, disturbs: Literal["time", "nothing"] = "nothing") -> None:
        self.obstacle, self.disturbs = obstacle, disturbs

    @hookimpl
    def register_profiler(self) -> Profiler:
        return Profiler(takes_steps=True, disturbs=self.disturbs)

    @hookimpl
    def profiler_obstacle(self, spec: RunSpec) -> Obstacle | None:
        return self.obstacle if spec.launcher == "local" else None

    @hookimpl
    def wrap_command(self, spec: RunSpec, launch: Launch) -> Launch | None:
        return None


class Best(Recorder):
    @hookimpl
    def register_settings(self) -> type[Settings]:
        return BestSettings


def installed(
    listed: Sequence[str] = LISTED, best: Obstacle | None = OBSTACLE, plain: Obstacle | None = None
) -> Plugins:
    """The toy framework with these profilers of its workload, and three installed ones."""

    class Framework:
        @hookimpl
        def register_workloads(self) -> list[Workload]:
            return [workload.replace(profilers=tuple(listed)) for workload in toy.register_workloads()]

        parse_log = staticmethod(toy.parse_log)
        register_settings = staticmethod(toy.register_settings)

    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)
    registry.register(llmbx.builtin, name="local")
    registry.register(Framework(), name="toy")
    for name, profiler in {"other": Recorder(), "best": Best(best), "plain": Recorder(plain, "time")}.items():
        registry.register(profiler, name=name)
    return Plugins(registry, [])


def asked(plugins: Plugins, environ: dict[str, str] | None = None, **options: Any) -> RunSpec:
    request = Request(workload="line", profile=True, profile_steps="2-4", runtime="host", **options)
    return resolve(request, plugins, Config(), {}, environ or {})


def test_a_profiler_that_cannot_be_used_is_replaced_and_the_line_says_by_which_and_what_it_lacks() -> None:
    plugins = installed()
    spec = usable_profiler(asked(plugins), plugins)
    assert spec.profile is not None and spec.profile.tool == "plain" and spec.profilers == ("plain",)
    assert spec.origins[ORIGIN] == "instead of best: best is not on PATH"
    assert spec.disturbed == ("the profiler plain changes the step time",)
    (note,) = replaced_profiler(spec, plugins)
    assert note.warning and note.problem == "best is not on PATH, so plain profiles the steps"
    assert note.fix == "best would add the time of each kernel: install it"
    repaired = installed(best=None)
    assert usable_profiler(spec, repaired) == spec, "a run that is started from this record keeps its profiler"
    assert replaced_profiler(spec, repaired) == []


@pytest.mark.parametrize(
    ("plugins", "tool"),
    [
        (installed(best=None), "best"),
        (installed(listed=("plain", "best"), best=None), "plain"),
        (installed(listed=("absent", "plain")), "plain"),
        (installed(plain=OBSTACLE), "best"),
        (installed(listed=("best",)), "best"),
        (installed(listed=()), "other"),
    ],
    ids=["usable", "order of the workload", "not installed", "none usable", "no other", "not listed"],
)
def test_the_profiler_is_kept_if_it_can_be_used_or_no_other_can(plugins: Plugins, tool: str) -> None:
    spec = usable_profiler(asked(plugins), plugins)
    assert spec.profile is not None and spec.profile.tool == tool and replaced_profiler(spec, plugins) == []


@pytest.mark.parametrize(
    "options",
    [{"profile_tool": "best"}, {"wrappers": ("best",)}, {"plugin_settings": {"best": {"counters": True}}}],
    ids=["--tool", "--with", "an option of it"],
)
def test_a_profiler_that_the_user_chose_is_refused_and_not_replaced(options: dict[str, Any]) -> None:
    plugins = installed()
    spec = usable_profiler(asked(plugins, **options), plugins)
    assert spec.profile is not None and spec.profile.tool == "best"
    (refused,) = Framework(plugins, "toy").check_profilers(spec)
    assert not refused.warning and (refused.problem, refused.fix) == (OBSTACLE.problem, OBSTACLE.fix)


def test_a_variable_for_the_replaced_profiler_does_not_choose_it() -> None:
    """The variables of the recipes are exported once and for every run."""
    plugins = installed()
    spec = usable_profiler(asked(plugins, {"COUNTERS": "true"}), plugins)
    assert spec.profile is not None and spec.profile.tool == "plain"


def test_the_variable_of_the_recipes_chooses_in_the_same_way() -> None:
    plugins = installed()
    request = Request(workload="line", runtime="host", steps=60)
    spec = usable_profiler(resolve(request, plugins, Config(), {}, {"ENABLE_PROFILE": "true"}), plugins)
    assert spec.profile is not None and spec.profile.tool == "plain"


def test_a_repeated_run_chooses_anew() -> None:
    plugins = installed()
    first = usable_profiler(asked(plugins, profile_tool="other"), plugins)
    recipe = plugins.workload("line").recipes[0]
    request = Request(workload="line", profile=True, profile_steps="5-6")
    spec = usable_profiler(again(first, recipe, request, {}, plugins), plugins)
    assert spec.profile is not None and (spec.profile.tool, spec.profilers) == ("plain", ("plain",))
    assert spec.disturbed == ("the profiler plain changes the step time",)
    repaired = installed(best=None)
    spec = usable_profiler(again(spec, recipe, request, {}, repaired), repaired)
    assert spec.profile is not None and (spec.profile.tool, spec.profilers) == ("best", ("best",))
    assert spec.disturbed == spec.findings == () and replaced_profiler(spec, repaired) == []


def test_a_repeated_run_has_no_warning_about_settings_of_the_run_before() -> None:
    """The variable had no effect there; here it has."""
    plugins = installed(best=None)
    plain = resolve(Request(workload="line", runtime="host"), plugins, Config(), {}, {"COUNTERS": "true"})
    assert [finding.rule for finding in plain.findings] == ["counters"]
    request = Request(workload="line", profile=True, profile_steps="5-6")
    spec = again(plain, plugins.workload("line").recipes[0], request, {"COUNTERS": "true"}, plugins)
    assert spec.findings == ()


def test_without_a_profiler_of_steps_the_request_is_refused() -> None:
    with pytest.raises(UsageError, match="no installed profiler records steps"):
        asked(installed(listed=("absent",)))
