"""The check of a plugin: valid plugins pass, and each kind of problem is reported."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pluggy
import pytest

import llmbx.builtin
import llmbx_toy.plugin as toy
from llmbx import hookimpl, hookspecs
from llmbx.errors import UsageError
from llmbx.launchers.local import LocalLauncher
from llmbx.logs.parser import LogFormat, LogParser
from llmbx.model import ExpectedConfiguration, Image, Launch, Permitted, Phase, Prefix, RunSpec, Step
from llmbx.model.evidence import Check, Evidence
from llmbx.model.flops import Flops
from llmbx.plugins.discovery import HOOKS, PluginInfo
from llmbx.plugins.manager import Plugins
from llmbx.runtimes.host import HostRuntime
from llmbx.testing import assert_plugin_ok, check_plugin

LOG = "toy step 1/2 time 0.100000 loss 2.500000\ntoy step 2/2 time 0.100000 loss 2.250000\n"
Checked = Callable[..., list[str]]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Checked:
    """`check(build_command=…)`: the problems of the toy plugin with other hooks; None removes a hook."""

    def checked(log: str | None = None, base: Any = toy, **hooks: Any) -> list[str]:
        module = types.ModuleType("toy")
        for name in HOOKS:
            if function := hooks.get(name, getattr(base, name, None) if name not in hooks else None):
                setattr(module, name, function)
        manager = pluggy.PluginManager("llmbx")
        manager.add_hookspecs(hookspecs)
        manager.register(llmbx.builtin, name="local")
        manager.register(module, name="toy")
        had = tuple(sorted(caller.name for caller in manager.get_hookcallers(module) or []))
        info = PluginInfo(name="toy", distribution="test", version="1", module="toy", hooks=had)
        plugins = Plugins(manager, [info])
        monkeypatch.setattr("llmbx_kit.subject.load_plugins", lambda: plugins)
        monkeypatch.setattr("llmbx_kit.preview.load_plugins", lambda: plugins)
        return check_plugin("toy", log)

    return checked


def test_the_toy_without_changes_meets_the_contract(check: Checked) -> None:
    assert check(LOG) == []


def test_an_unknown_name(check: Checked) -> None:
    assert check_plugin("tyo") == ["no plugin named 'tyo' (did you mean 'toy'?)"]
    with pytest.raises(AssertionError, match="plugin 'tyo' breaks the contract:"):
        assert_plugin_ok("tyo")


def test_a_hook_without_its_mark(check: Checked) -> None:
    def compute_flops(spec: RunSpec) -> Flops:
        return Flops(full=1.0, causal=1.0, formula="one")

    found = check(compute_flops=compute_flops)
    assert found == [
        "compute_flops has no @hookimpl: it is never called",
        "it has workloads but no hook compute_flops",
    ]


def test_an_invalid_workload(check: Checked) -> None:
    (line,) = toy.register_workloads()
    (recipe,) = line.recipes
    row = recipe.rows[0].replace(gpus=("3-8",))

    @hookimpl
    def register_workloads() -> list[Any]:
        return [line.replace(recipes=(recipe.replace(rows=(row,)),))]

    assert "'3-8' is not a valid scale" in check(register_workloads=register_workloads)[0]


def test_a_row_that_breaks_a_rule(check: Checked) -> None:
    (line,) = toy.register_workloads()
    (recipe,) = line.recipes
    row = recipe.rows[0].replace(gpus=("4",), tp=4)

    @hookimpl
    def register_workloads() -> list[Any]:
        return [line.replace(recipes=(recipe.replace(rows=(row,)),))]

    assert "TP 4 does not divide the 1 attention heads" in check(register_workloads=register_workloads)[0]


def _launch(**changes: Any) -> Any:
    @hookimpl
    def build_command(spec: RunSpec, image: Image) -> Launch:
        launch = toy.build_command(spec, image)
        phase: Phase = launch.phases[0].replace(**changes)
        return launch.replace(phases=(phase,))

    return build_command


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"argv": ("python3", 8)}, "an invalid Launch: phases[0].argv[1]: expected a str, got an int"),
        ({"argv": ("/usr/bin/torchrun", "train.py")}, "phase 'train' starts with torchrun"),
        ({"argv": ()}, "its argv is empty"),
        ({"argv": ("python3", "other.py")}, "starts other.py, which is not one of the launch's files"),
        ({"env": {"HF_TOKEN": "x"}}, "phase 'train' has the secret HF_TOKEN in env"),
        ({"role": "the training"}, "a role may contain only a-z"),
        ({"prefixes": (Prefix(argv=("time",), ranks="7"),)}, "there is no rank 7"),
    ],
)
def test_an_invalid_launch(check: Checked, changes: dict[str, Any], said: str) -> None:
    found = check(build_command=_launch(**changes))
    assert len(found) == 1 and said in found[0], found


def test_a_launch_that_differs_in_each_call(check: Checked) -> None:
    count = iter(range(1000))

    @hookimpl
    def build_command(spec: RunSpec, image: Image) -> Launch:
        return _launch(env={"N": str(next(count))})(spec, image)

    assert "build_command is not pure" in check(build_command=build_command)[0]


def test_invalid_flops(check: Checked) -> None:
    @hookimpl
    def compute_flops(spec: RunSpec) -> Flops:
        return Flops(full=1.0, causal=float("nan"), formula="")

    assert "compute_flops returned 1 and nan FLOPs" in " ".join(check(compute_flops=compute_flops))


def test_a_formula_without_a_name(check: Checked) -> None:
    compute_flops = hookimpl(lambda spec: Flops(full=1.0, causal=1.0, formula=""))
    assert "formula is empty" in " ".join(check(compute_flops=compute_flops))


def reading(parser: Any) -> Any:
    """The hook `parse_log` with the toy's format and this parser."""

    @hookimpl
    def parse_log(spec: RunSpec | None) -> list[LogFormat]:
        plain = toy.parse_log(None)[0]
        return [LogFormat(plain.name, plain.title, plain.sniff, parser)]

    return parse_log


class Careless(LogParser):
    """Expects every line to be complete."""

    def feed(self, line: str) -> list[Any]:
        if "loss" not in line:
            return []
        return [toy.Step(number=1, loss=float(line.split("loss")[1]))]


def test_a_parser_that_fails_on_a_cut_line(check: Checked) -> None:
    found = check(LOG, parse_log=reading(Careless))
    assert "the parser's first_step is None" in found[0]
    assert "the parser fails on the line 'loss: nan'" in found[1]


def test_a_parser_that_fails_on_a_record_or_does_not_declare_its_measures(check: Checked) -> None:
    class Trusting(toy.MetricsParser):
        def feed_record(self, record: Any) -> list[Any]:
            return [Step(number=record.step or 1, time_s=record.values["time"])]

    (problem,) = check(parse_log=reading(Trusting))
    assert problem.startswith("the parser fails on the record {'step': ") and "plugin 'toy'" in problem

    class Undeclared(toy.ToyParser):
        def feed(self, line: str) -> list[Any]:
            return [found.replace(measures={"images": 1.0}) for found in super().feed(line) if isinstance(found, Step)]

    (problem,) = check(LOG, parse_log=reading(Undeclared))
    assert "measure 'images' is not declared by its log parser" in problem


def test_a_log_that_the_plugin_does_not_read(check: Checked) -> None:
    assert check("another framework's step 1\n") == [
        "no format recognizes the given log",
        "the parser finds no step in the given log",
    ]


def test_a_profiler_that_replaces_what_it_should_wrap(check: Checked) -> None:
    @hookimpl
    def wrap_command(spec: RunSpec, launch: Launch) -> Launch:
        return launch.replace(phases=(Phase(role="profile", argv=("perf",)),))

    def read(evidence: Evidence) -> str:
        assert evidence.run_dir is not None
        return (evidence.run_dir / "trace.json").read_text()

    @hookimpl
    def register_checks() -> list[Check]:
        return [Check(id="trace", reads="", means="", do="", effect="failed", test=read, reads_files=True)]

    found = check(base=None, wrap_command=wrap_command, register_checks=register_checks)
    assert "wrap_command changed the phases" in found[0]
    assert "check 'trace' failed: FileNotFoundError" in found[1]


class Half(HostRuntime):
    name = "half"
    wrap = None  # type: ignore[assignment]


class Narrow(HostRuntime):
    name = "narrow"

    def plan(self, request: Any) -> Any:  # type: ignore[override]
        return None


class Mute(LocalLauncher):
    name = "mute"
    poll_s = 0

    def render(self, *given: Any) -> str:
        return "echo"


def test_tools_that_lack_a_part_of_the_interface(check: Checked) -> None:
    (lacks,) = check(base=None, register_runtimes=hookimpl(lambda: [Half()]))
    assert lacks == "runtime 'half' has no method wrap"
    runtimes, launchers = hookimpl(lambda: [Narrow()]), hookimpl(lambda: [Mute()])
    found = check(base=None, register_runtimes=runtimes, register_launchers=launchers)
    assert "runtime 'narrow' has a method plan that does not accept (request, install)" in found[0]
    assert found[1:] == [
        "launcher 'mute' has a poll_s of 0, expected a number of seconds > 0",
        "launcher 'mute' renders a script that does not start with #!",
    ]


def test_a_permitted_difference_needs_a_reason(check: Checked) -> None:
    @hookimpl
    def expect_configuration(spec: RunSpec) -> ExpectedConfiguration:
        return ExpectedConfiguration(permitted=(Permitted(keys=("log.dir",), reason=" "),))

    @hookimpl
    def configuration_program(spec: RunSpec) -> None:
        raise UsageError("this release cannot be installed")

    (found,) = check(expect_configuration=expect_configuration, configuration_program=configuration_program)
    assert "expect_configuration: the permitted difference in log.dir has no reason" in found


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda phase, prefix: phase.replace(prefixes=(prefix,)), "the prefix of another profiler is gone"),
        (lambda phase, prefix: phase.replace(prefixes=(*phase.prefixes, prefix, prefix)), "time -v is there 2 times"),
        (
            lambda phase, prefix: phase.replace(argv=("time", *phase.argv)),
            "argv is time python3 train.py; it must stay",
        ),
        (lambda phase, prefix: phase.replace(env={}), "the variable KEPT is gone"),
    ],
)
def test_a_profiler_that_changes_what_others_put_into_the_launch(change: Any, says: str, check: Checked) -> None:
    @hookimpl
    def wrap_command(spec: RunSpec, launch: Launch) -> Launch:
        phases = tuple(change(phase, Prefix(argv=("time", "-v"))) for phase in launch.phases)
        return launch.replace(phases=phases)

    (problem,) = check(base=None, wrap_command=wrap_command)
    assert says in problem


def test_a_parser_that_loses_a_step(check: Checked) -> None:
    lines = "".join(f"toy step {n}/9 time 0.100000 loss 2.500000\n" for n in range(1, 10) if n != 5)
    assert check(lines) == ["the parser finds steps 1 to 9 without 5"]
