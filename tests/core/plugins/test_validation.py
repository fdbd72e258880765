"""Validation of hook return values: errors name the plugin, the hook and the expected type."""

from __future__ import annotations

import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pluggy
import pytest

from llmbx import hookimpl, hookspecs
from llmbx.errors import PluginError
from llmbx.launchers.local import LocalLauncher
from llmbx.logs.parser import LogParser
from llmbx.model import Fact, Figure, Finding, Image, Launch, Phase, RunSpec, Section, Step
from llmbx.model.flops import Flops
from llmbx.plugins.discovery import HOOKS
from llmbx.plugins.framework import Framework
from llmbx.plugins.manager import Plugins
from llmbx.plugins.validation import Returns, method_returns

Make = Callable[..., RunSpec]
IMAGE = Image(kind="host", reference="", python="python")
PHASE = Phase(role="train", argv=("python", "train.py"))
LAUNCH = Launch(nodes=1, ranks_per_node=1, gpus_per_rank=0, phases=(PHASE,))
FINDING = Finding(rule="a", problem="b", fix="c")


class Grammar(LogParser):
    def feed(self, line: str) -> list[Step]:
        return []


class Nameless(LocalLauncher):
    """A launcher without two of the attributes that have no default."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("name", "remote"):
            raise AttributeError(name)
        return super().__getattribute__(name)


def having(hook: str, answer: Any) -> Plugins:
    """A plugin `odd` whose hook returns this value."""
    arguments = {"spec": "self, spec", "image": "self, spec, image", "launch": "self, spec, launch",
                 "run": "self, spec, run_dir", "": "self"}  # fmt: skip
    kind = {"check_spec": "spec", "prepare_image": "spec", "build_command": "image", "wrap_command": "launch",
            "parse_log": "spec", "compute_flops": "spec", "figures": "run",
            "report_sections": "run"}.get(hook, "")  # fmt: skip
    function = eval(f"lambda {arguments[kind]}: answer", {"answer": answer})
    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)
    registry.register(type("Odd", (), {hook: hookimpl(function)})(), name="odd")
    return Plugins(registry, [])


def ask(hook: str, answer: Any, spec: RunSpec) -> Any:
    given: dict[str, Any] = {"spec": spec, "image": IMAGE, "launch": LAUNCH, "run_dir": Path()}
    names = getattr(hookspecs, hook).__annotations__
    return having(hook, answer).ask("odd", hook, **{name: given[name] for name in names if name in given})


def return_type(hook: str) -> Returns:
    returns = method_returns(getattr(hookspecs, hook))
    assert returns is not None
    return returns


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_a_return_type(hook: str) -> None:
    kind = return_type(hook)[1]
    assert isinstance(typing.get_origin(kind) or kind, type)


@pytest.mark.parametrize(
    ("hook", "answer", "says"),
    [
        ("register_workloads", 5, "returned an int, expected a list of Workload"),
        ("register_workloads", [{"name": "x"}], "returned a list with a dict, expected a list of Workload"),
        ("register_workloads", (one for one in ()), "returned a generator, expected a list of Workload"),
        ("check_spec", FINDING, "returned a Finding, expected a list of Finding"),
        ("check_spec", ["bad"], "returned a list with a str, expected a list of Finding"),
        ("check_spec", [FINDING.replace(fix=3)], "returned an invalid Finding: fix: expected a str, got an int"),
        ("prepare_image", "x", "returned a str, expected an ImageRequest"),
        ("build_command", {"nodes": 1}, "returned a dict, expected a Launch"),
        ("build_command", [LAUNCH], "returned a list, expected a Launch"),
        ("build_command", LAUNCH.replace(phases=()), "returned a Launch without phases, expected at least one"),
        ("build_command", LAUNCH.replace(ranks_per_node=0), "ranks_per_node: expected an int >= 1"),
        ("build_command", LAUNCH.replace(nodes=-2), "nodes: expected an int >= 1"),
        ("build_command", LAUNCH.replace(ranks_per_node=10**7), "a Launch of 10000000 ranks, expected at most 1000000"),
        ("build_command", LAUNCH.replace(phases=PHASE), "phases: expected a list or tuple, got a record"),
        ("build_command", LAUNCH.replace(phases=(PHASE.replace(argv="python train.py"),)),
         "returned an invalid Launch: phases[0].argv: expected a list or tuple, got a str"),
        ("build_command", LAUNCH.replace(phases=(PHASE.replace(argv=("python", 3)),)),
         "phases[0].argv[1]: expected a str, got an int"),
        ("build_command", LAUNCH.replace(phases=(PHASE.replace(argv=(Path("x"),)),)), "it contains a PosixPath"),
        ("build_command", LAUNCH.replace(phases=(PHASE.replace(env={"A": 1}),)),
         "phases[0].env[...]: expected a str, got an int"),
        ("build_command", LAUNCH.replace(files={"train.py": "print()"}), "files[...]: expected bytes, got a str"),
        ("wrap_command", 7, "returned an int, expected a Launch"),
        ("wrap_command", LAUNCH.replace(phases=()), "returned a Launch without phases"),
        ("compute_flops", 6.0, "returned a float, expected a Flops"),
        ("compute_flops", Flops(full="1", causal=1.0, formula="x"), "full: expected a float, got a str"),
        ("compute_flops", Flops(full=float("nan"), causal=1.0, formula="x"), "FLOPs, expected numbers above 0"),
        ("compute_flops", Flops(full=1.0, causal=0.0, formula="x"), "returned 1 and 0 FLOPs, expected numbers above 0"),
        ("parse_log", Grammar(), "returned a Grammar, expected a list of LogFormat"),
        ("figures", Figure(name="a", unit="s", values=(1.0,)), "returned a Figure, expected a list of Figure"),
        ("report_sections", ["x"], "returned a list with a str, expected a list of Section"),
        ("report_sections", [Section(name="a", title="b", text="words")], "text: expected a list or tuple, got a str"),
        ("parse_log", ["a"], "returned a list with a str, expected a list of LogFormat"),
        ("register_runtimes", [object()],
         "returned a list with an object, expected a list of Runtime: its class must inherit from llmbx.api.Runtime"),
        ("register_launchers", [Nameless()], "expected a list of Launcher: it has no name, remote"),
        ("register_launchers", [Grammar], "expected a list of Launcher: this is the class"),
    ],
)  # fmt: skip
def test_an_invalid_value_is_reported(make_spec: Make, hook: str, answer: Any, says: str) -> None:
    with pytest.raises(PluginError) as error:
        ask(hook, answer, make_spec())
    assert str(error.value).startswith(f"plugin 'odd': {hook} returned ") and says in str(error.value)
    assert "\n" not in str(error.value) and error.value.exit_code == 2


def test_a_missing_required_value_is_reported(make_spec: Make) -> None:
    odd = Framework(having("prepare_image", None), "odd")
    with pytest.raises(PluginError, match="'odd': prepare_image returned nothing, expected an ImageRequest"):
        odd.prepare_image(make_spec())


def test_valid_values_pass_and_lists_become_tuples(make_spec: Make) -> None:
    listed = LAUNCH.replace(phases=[PHASE.replace(argv=["python", "train.py"])], files={"a": b"\xff"})
    assert ask("build_command", listed, make_spec()) == LAUNCH.replace(files={"a": b"\xff"})
    assert ask("wrap_command", None, make_spec()) is None
    assert ask("check_spec", (FINDING,), make_spec()) == [[FINDING]]
    section = Section(name="a", title="b", facts=(Fact(name="wait", value=0.5, unit="s"),))
    assert ask("report_sections", [section], make_spec()) == [[section]]


def test_numbers_of_other_libraries_are_numbers(make_spec: Make) -> None:
    import numpy as np

    figure = Figure(name="a", unit="s", values=(np.float64(1.5),))
    ((found,),) = ask("figures", [figure], make_spec())
    assert found.values == (1.5,) and type(found.values[0]) is float
