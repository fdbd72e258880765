"""Third-party runtimes and launchers: guarded, registered once, with unique names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pluggy
import pytest

import llmbx_toy.plugin as toy
from llmbx import builtin, hookimpl, hookspecs
from llmbx.errors import InfraError, PluginError
from llmbx.launchers.local import LocalLauncher
from llmbx.model import Job, RunSpec, Setting
from llmbx.plugins.manager import Plugins
from llmbx.runtimes.host import HostRuntime

Make = Callable[..., RunSpec]
JOB = Job(launcher="odd", job_id="1", submitted=1.0)


class Launcher(LocalLauncher):
    name = "odd"

    def status(self, job: Job, run_dir: Path) -> Any:
        return {"state": "running"}

    def cancel(self, job: Job, run_dir: Path) -> None:
        raise ConnectionError("no answer")

    def dump_stacks(self, job: Job, run_dir: Path) -> None:
        raise InfraError("the tool says no")

    def find(self, runs: Any) -> dict[Path, Job]:
        print("looking")
        return {}

    def inside(self, spec: RunSpec) -> LocalLauncher:
        return Launcher()


class Runtime(HostRuntime):
    name = "odd"


class Odd:
    def __init__(self, *items: Any) -> None:
        self.items, self.asked = items, 0

    @hookimpl
    def register_runtimes(self) -> list[Any]:
        self.asked += 1
        return [item for item in self.items if isinstance(item, HostRuntime)]

    @hookimpl
    def register_launchers(self) -> list[Any]:
        return [item for item in self.items if isinstance(item, LocalLauncher)]


def having(**plugins: object) -> Plugins:
    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)
    for name, plugin in {"local": builtin, **plugins}.items():
        registry.register(plugin, name=name)
    return Plugins(registry, [])


def test_exceptions_and_invalid_values_of_a_launcher_are_reported(tmp_path: Path) -> None:
    launcher = having(odd=Odd(Launcher())).launcher("odd")
    with pytest.raises(PluginError, match="plugin 'odd': cancel of launcher 'odd' failed: ConnectionError: no answer"):
        launcher.cancel(JOB, tmp_path)
    says = "plugin 'odd': status of launcher 'odd' returned a dict, expected a JobStatus"
    with pytest.raises(PluginError, match=says):
        launcher.status(JOB, tmp_path)
    with pytest.raises(InfraError, match=r"^the tool says no$"):
        launcher.dump_stacks(JOB, tmp_path)


def test_a_launcher_keeps_its_members_and_its_output_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    launcher = having(odd=Odd(Launcher())).launcher("odd")
    assert (launcher.name, launcher.attended, launcher.available()) == ("odd", True, None)
    assert launcher.check(Path()) is None and launcher.flag_syntax == ""
    launcher.find({})
    assert capsys.readouterr() == ("", "looking\n")


def test_the_launcher_inside_an_allocation_is_guarded_too(make_spec: Make, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="cancel of launcher 'odd' failed"):
        having(odd=Odd(Launcher())).launcher("odd").inside(make_spec()).cancel(JOB, tmp_path)


def test_runtimes_are_registered_once() -> None:
    odd = Odd(Runtime())
    plugins = having(odd=odd)
    assert plugins.runtime("odd") is plugins.runtimes()["odd"]
    assert odd.asked == 1


def test_the_names_of_core_are_reserved(capsys: pytest.CaptureFixture[str]) -> None:
    plugins = having(odd=Odd(HostRuntime()), other=Odd(LocalLauncher()))
    wrong: Any = (plugins.runtime("host").wrap, "plugin 'local'"), (plugins.launcher("local").cancel, "'local'")
    for method, owner in wrong:
        with pytest.raises(PluginError, match=owner):
            method()
    told = capsys.readouterr().err
    assert "plugin 'odd': the runtime 'host' is already registered by plugin 'local'; it is disabled" in told
    assert "plugin 'other': the launcher 'local' is already registered by plugin 'local'" in told


def test_a_collision_of_third_parties_names_both(capsys: pytest.CaptureFixture[str]) -> None:
    plugins = having(one=Odd(Runtime()), two=Odd(Runtime()), three=Odd(Launcher(), Launcher()))
    assert "odd" in plugins.runtimes() and "odd" not in plugins.launchers()
    told = capsys.readouterr().err
    assert "plugin 'two': the runtime 'odd' is already registered by plugin 'one'" in told
    assert "plugin 'three': the launcher 'odd' is already registered by itself" in told


def test_a_workload_that_declares_a_field_of_the_settings_class_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    class Own(toy.ToySettings, frozen=True):
        plugin = "own"

    class Clash:
        @hookimpl
        def register_settings(self) -> type[Own]:
            return Own

        @hookimpl
        def register_workloads(self) -> list[Any]:
            (line,) = toy.register_workloads()
            return [line.replace(settings={"seed": Setting(default="another", help="")})]

    plugins = having(toy=toy, own=Clash())
    assert {workload.plugin for workload in plugins.workloads} == {"toy"}
    assert "plugin 'own': workload 'line': at settings.seed: Own has a field of this name" in capsys.readouterr().err


def test_two_workloads_of_one_name_in_a_plugin_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    class Twice:
        @hookimpl
        def register_workloads(self) -> list[Any]:
            return [*toy.register_workloads()] * 2

    plugins = having(toy=toy, twice=Twice())
    assert {workload.plugin for workload in plugins.workloads} == {"toy"}
    assert "plugin 'twice' has two workloads named '" in capsys.readouterr().err


@pytest.mark.parametrize("hook", ["register_workloads", "register_runtimes", "register_launchers"])
def test_a_plugin_whose_hook_fails_is_disabled_and_the_others_serve(
    hook: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: object) -> list[Any]:
        raise ConnectionError("no answer")

    broken = type("Broken", (), {hook: hookimpl(fail)})()
    plugins = having(toy=toy, broken=broken)
    plugins.ask_all()
    assert {workload.plugin for workload in plugins.workloads} == {"toy"}
    assert "host" in plugins.runtimes() and "local" in plugins.launchers()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"llmbx: plugin 'broken': {hook} failed: ConnectionError: no answer")
    assert line.endswith("; it is disabled")
