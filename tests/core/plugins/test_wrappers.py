"""Hook wrappers, `tryfirst` and `trylast`, for every hook of the contract: they work as pluggy documents them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pluggy
import pytest

from llmbx import hookimpl, hookspecs
from llmbx.config.install import Install
from llmbx.errors import PluginError, UsageError
from llmbx.measure.judge import Judge
from llmbx.model import (
    ConfigurationProgram,
    Environment,
    Evidence,
    Expected,
    ExpectedConfiguration,
    Image,
    ImageRequest,
    Launch,
    Observed,
    Obstacle,
    Phase,
    Profiler,
    RunGroup,
    RunSpec,
)
from llmbx.model.flops import Flops
from llmbx.model.settings import Settings
from llmbx.plugins.discovery import HOOKS
from llmbx.plugins.hooks import implementers
from llmbx.plugins.manager import Plugins
from llmbx.plugins.validation import REQUIRED, Returns, method_returns
from llmbx.record.history import History

from .conftest import Llmbx, Package

LAUNCH = Launch(nodes=1, ranks_per_node=1, gpus_per_rank=0, phases=(Phase(role="train", argv=("true",)),))
ENVIRONMENT = Environment(name="a", pythons=("3.11",), steps=())


class OwnSettings(Settings, frozen=True):
    plugin: ClassVar[str] = "own"


ANSWERS: dict[str, Any] = {
    "register_judge": Judge(), "register_history": History(),
    "prepare_image": ImageRequest(), "build_command": LAUNCH, "register_profiler": Profiler(), "wrap_command": LAUNCH,
    "compute_flops": Flops(full=1.0, causal=1.0, formula="6ND"),
    "find_runs": RunGroup(folders=()), "expect_configuration": ExpectedConfiguration(),
    "write_sections": True, "profiler_obstacle": Obstacle(problem="a", fix="b"), "predict_run": Expected(),
    "observe_run": Observed(), "configuration_program": ConfigurationProgram(environment=ENVIRONMENT, argv=()),
    "register_settings": OwnSettings, "suspect_nodes": {"n7": "why"},
}  # fmt: skip
"""A valid answer of each hook that has one; the others collect lists."""

ARGUMENTS = {
    "image": Image(kind="host", reference="", python="python"), "launch": LAUNCH, "run_dir": Path(), "path": Path(),
    "title": "", "sections": (), "text": "", "evidence": Evidence(steps=()),
    "install": Install(root="/nowhere", origin="test"), "occasion": "retry",
}  # fmt: skip

AROUND = "log.append('around <')\nanswer = yield\nlog.append('around >')\nreturn answer"
OLD = "log.append('around <')\noutcome = yield\nlog.append('around >')"


def return_type(hook: str) -> Returns:
    returns = method_returns(getattr(hookspecs, hook))
    assert returns is not None
    return returns


class House:
    """Plugins that are made of the code of one hook; `log` is what they did."""

    def __init__(self, hook: str, spec: RunSpec) -> None:
        self.hook, self.log = hook, []  # type: ignore[var-annotated]
        self.manager = pluggy.PluginManager("llmbx")
        self.manager.add_hookspecs(hookspecs)
        self.plugins = Plugins(self.manager, [])
        self.names: tuple[str, ...] = getattr(self.manager.hook, hook).spec.argnames
        self.arguments = {name: value for name, value in {**ARGUMENTS, "spec": spec}.items() if name in self.names}
        self.answer = [] if return_type(hook)[0] else ANSWERS[hook]
        self.answers = [[]] if return_type(hook)[0] else ANSWERS[hook]

    def add(self, plugin: str, code: str | None = None, **marks: Any) -> None:
        code = f"log.append({plugin!r})\nreturn given" if code is None else code
        text = f"def {self.hook}({', '.join(self.names)}):\n{textwrap.indent(code, '    ')}"
        names = {"log": self.log, "given": self.answer}
        exec(text, names)
        owner = self.manager.get_plugin(plugin)
        function = hookimpl(**marks)(names[self.hook])  # type: ignore[call-overload]
        assert owner is None
        self.manager.register(type(plugin, (), {self.hook: staticmethod(function)}), name=plugin)

    def ask(self, plugin: str = "own") -> Any:
        return self.plugins.ask(plugin, self.hook, **self.arguments)


@pytest.fixture(params=HOOKS)
def house(request: pytest.FixtureRequest, make_spec: Callable[..., RunSpec]) -> House:
    return House(request.param, make_spec())


@pytest.fixture
def command(make_spec: Callable[..., RunSpec]) -> House:
    return House("build_command", make_spec())


def same(given: Any, expected: Any) -> bool:
    return bool(given == expected or (isinstance(given, list) and [*map(list, given)] == expected))


@pytest.mark.parametrize(("code", "style"), [(AROUND, "wrapper"), (OLD, "hookwrapper")])
def test_a_wrapper_is_called_around_each_plugin_in_the_order_of_the_marks(house: House, code: str, style: str) -> None:
    house.add("last", trylast=True)
    house.add("own")
    house.add("first", tryfirst=True)
    house.add("around", code, **{style: True})
    order = implementers(house.manager, house.hook)
    assert order == implementers(house.manager, house.hook, newest_first=True) == ["first", "own", "last"]
    for name in order:
        assert same(house.ask(name), house.answers)
    assert house.log == [word for name in order for word in ("around <", name, "around >")]


def test_wrappers_are_nested_in_the_order_of_the_marks(house: House) -> None:
    house.add("inner", AROUND.replace("around", "inner"), wrapper=True, trylast=True)
    house.add("outer", AROUND.replace("around", "outer"), wrapper=True, tryfirst=True)
    house.add("own")
    house.add("middle", OLD.replace("around", "middle"), hookwrapper=True)
    assert same(house.ask(), house.answers)
    assert house.log == ["outer <", "middle <", "inner <", "own", "inner >", "middle >", "outer >"]


@pytest.mark.parametrize(
    ("code", "style"), [("yield\nreturn object()", "wrapper"), ("(yield).force_result(object())", "hookwrapper")]
)
def test_an_invalid_answer_of_a_wrapper_names_the_wrapper(house: House, code: str, style: str) -> None:
    house.add("own")
    house.add("around", code, **{style: True})
    with pytest.raises(PluginError) as error:
        house.ask()
    assert str(error.value).startswith(f"plugin 'around': wrapper of {house.hook} returned an object, expected ")


def test_a_wrapper_that_loses_the_answer_is_named(house: House) -> None:
    house.add("own")
    house.add("around", "yield", wrapper=True)
    if house.hook in REQUIRED or return_type(house.hook)[0]:
        with pytest.raises(PluginError, match=f"plugin 'around': wrapper of {house.hook} returned None, expected "):
            house.ask()
    else:
        assert house.ask() is None


FAULTS = [
    ("1 / 0\nyield", "failed: ZeroDivisionError: division by zero"),
    ("yield\n1 / 0", "failed: ZeroDivisionError: division by zero"),
    ("try:\n    yield\nfinally:\n    {}['x']", "failed: KeyError: 'x'"),
    ("raise SystemExit(3)\nyield", "failed: SystemExit: 3"),
    ("if False:\n    yield", "does not yield, expected exactly one yield"),
    ("yield\nyield", "has a second yield, expected exactly one"),
]


@pytest.mark.parametrize("style", ["wrapper", "hookwrapper"])
@pytest.mark.parametrize(("code", "says"), FAULTS)
def test_a_fault_of_a_wrapper_names_the_wrapper(command: House, code: str, says: str, style: str) -> None:
    command.add("own")
    command.add("around", code, **{style: True})
    with pytest.raises(PluginError) as error:
        command.ask()
    assert str(error.value).startswith(f"plugin 'around': wrapper of build_command {says}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("code", "style"),
    [("try:\n    return (yield)\nexcept ZeroDivisionError:\n    return given", "wrapper"),
     ("outcome = yield\nif isinstance(outcome.exception, ZeroDivisionError):\n    outcome.force_result(given)",
      "hookwrapper")],
)  # fmt: skip
def test_a_wrapper_may_handle_an_exception_of_what_it_wraps(command: House, code: str, style: str) -> None:
    command.add("own", "1 / 0")
    command.add("around", code, **{style: True})
    assert command.ask() == LAUNCH


@pytest.mark.parametrize(
    ("code", "style"),
    [(AROUND, "wrapper"), (OLD, "hookwrapper"), ("try:\n    yield\nexcept Exception:\n    raise", "wrapper")],
)
def test_an_exception_that_a_wrapper_passes_on_names_the_implementation(command: House, code: str, style: str) -> None:
    command.add("own", "1 / 0")
    command.add("around", code, **{style: True})
    with pytest.raises(PluginError, match=r"^plugin 'own': build_command failed: ZeroDivisionError: division by zero"):
        command.ask()


def test_an_error_for_the_user_passes_the_wrappers_unchanged(command: House) -> None:
    command.add("own", "from llmbx.errors import UsageError\nraise UsageError('use --gpus 8')")
    command.add("around", AROUND, wrapper=True)
    with pytest.raises(UsageError, match=r"^use --gpus 8$"):
        command.ask()


def test_a_plugin_may_wrap_a_hook_that_it_also_implements(command: House) -> None:
    class Both:
        @hookimpl
        def build_command(self) -> Launch:
            return LAUNCH.replace(nodes=2)

        @hookimpl(wrapper=True, specname="build_command")
        def doubled(self) -> Any:
            launch = yield
            return launch.replace(nodes=2 * launch.nodes)

    command.add("own")
    command.manager.register(Both(), name="both")
    assert (command.ask("own").nodes, command.ask("both").nodes) == (2, 4)
    assert implementers(command.manager, "build_command") == ["own", "both"]


def test_a_wrapper_is_neither_a_framework_nor_a_profiler(make_spec: Callable[..., RunSpec]) -> None:
    for hook, list_ in (("register_workloads", Plugins.frameworks), ("wrap_command", Plugins.profilers)):
        house = House(hook, make_spec())
        house.add("own")
        house.add("around", AROUND, wrapper=True)
        assert list_(house.plugins) == ["own"]


WRAPPER = """
from llmbx import hookimpl

@hookimpl(wrapper=True)
def build_command(spec, image):
    launch = yield
    first = launch.phases[0]
    return launch.replace(phases=(first.replace(env={**first.env, "ADDED": "by-a-wrapper"}), *launch.phases[1:]))
"""


def test_a_wrapper_of_a_third_party_changes_the_script_is_listed_and_traced(package: Package, llmbx: Llmbx) -> None:
    package("around", WRAPPER)
    dry = llmbx("run", "--plugin", "nemo", "grok1", "--size", "mini", "--gpus", "1", "--gpu-type", "cpu",
                "--emit-script", "-", LLMBX_TRACE_HOOKS="1")  # fmt: skip
    assert dry.returncode == 0, dry.stderr
    assert "export ADDED=by-a-wrapper" in dry.stdout
    assert "hook build_command(spec, image) -> around (wrapper), nemo" in dry.stderr
    rows = json.loads(llmbx("plugins", "--format", "json").stdout)
    (row,) = (row for row in rows if row["name"] == "around")
    assert (row["status"], row["hooks"]) == ("ok", ["build_command (wrapper)"])


@pytest.mark.parametrize("hook", ["register_workloads", "register_settings", "register_launchers"])
def test_a_broken_wrapper_is_disabled_and_not_what_it_wraps(package: Package, llmbx: Llmbx, hook: str) -> None:
    package("around", f"from llmbx import hookimpl\n\n@hookimpl(wrapper=True)\ndef {hook}():\n    yield\n    1 / 0\n")
    rows = {row["name"]: row["status"] for row in json.loads(llmbx("plugins", "--format", "json").stdout)}
    says = f"broken: plugin 'around': wrapper of {hook} failed: ZeroDivisionError"
    assert rows.pop("around").startswith(says) and {*rows.values()} == {"ok"}
