"""`llmbx plugins` and `llmbx doctor` report the errors of every plugin, in whichever hook they occur."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Llmbx, Package

CODE = """
from llmbx import hookimpl

@hookimpl
def {hook}():
    return {answer}
"""


@pytest.mark.parametrize("hook", ["register_workloads", "parse_log", "register_runtimes", "register_launchers"])
@pytest.mark.parametrize("answer", ["1 / 0", "[object()]"])
def test_a_plugin_that_fails_in_a_hook_is_listed_as_broken(
    package: Package, llmbx: Llmbx, hook: str, answer: str
) -> None:
    package("odd", CODE.format(hook=hook, answer=answer))
    done = llmbx("plugins", "--format", "json")
    (row,) = (row for row in json.loads(done.stdout) if row["name"] == "odd")
    assert row["status"].startswith("broken: plugin 'odd'") and hook in row["status"]


def test_doctor_calls_hooks_before_it_lists(package: Package, llmbx: Llmbx) -> None:
    package("odd", CODE.format(hook="register_runtimes", answer="[object()]"))
    package("idle", "def register_workloads(): return []")
    done = llmbx("doctor", "--format", "json", PATH="/nowhere")
    rows = {row["name"]: row for row in json.loads(done.stdout) if row["what"] == "plugin"}
    assert rows["odd"]["state"] == "broken" and "expected a list of Runtime" in rows["odd"]["detail"]
    assert rows["idle"]["state"] == "ok" and "no hook" in rows["idle"]["detail"]


def test_a_plugin_without_a_hook_is_reported(package: Package, llmbx: Llmbx) -> None:
    package("idle", "def register_workloads(): return []")
    says = "it implements no hook: mark its functions with @llmbx.hookimpl"
    done = llmbx("plugins", "--format", "json")
    assert says in [row["status"] for row in json.loads(done.stdout)]
    assert f"llmbx: plugin 'idle' (llmbx-idle): {says}" in done.stderr


def test_doctor_continues_after_a_runtime_that_fails(package: Package, llmbx: Llmbx) -> None:
    package(
        "odd",
        """
        from llmbx.api import Runtime, hookimpl
        from llmbx.runtimes.host import HostRuntime

        class Odd(HostRuntime):
            name = "odd"
            check = Runtime.check

            def available(self):
                raise OSError("no such tool")

        @hookimpl
        def register_runtimes():
            return [Odd()]
        """,
    )
    found = json.loads(llmbx("doctor", "--format", "json", PATH="/nowhere").stdout)
    rows = {row["name"]: row for row in found if row["what"] in ("runtime", "launcher")}
    assert rows["odd"]["state"] == "broken" and "check of runtime 'odd' failed: OSError" in rows["odd"]["detail"]
    assert "local" in rows


SETTINGS = """
from typing import Annotated, ClassVar
from llmbx import hookimpl
from llmbx.api import Option, Settings

class Odd(Settings, frozen=True):
    plugin: ClassVar[str] = "odd"
    {field}

@hookimpl
def register_settings():
    return Odd
"""


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("size: int = 0", "Odd.size has no Option in its annotation"),
        ('sizes: Annotated[list[int], Option(help="Sizes.")] = []', "Odd.sizes: expected a bool, int, float, str"),
        ('account: Annotated[str, Option(help="A.", name="--slurm-account")] = ""',
         "the option --slurm-account already belongs to plugin 'slurm'"),
    ],
)  # fmt: skip
def test_a_settings_class_that_cannot_be_used_disables_its_plugin(
    package: Package, llmbx: Llmbx, field: str, says: str
) -> None:
    package("odd", SETTINGS.format(field=field))
    done = llmbx("run", "--help")
    assert done.returncode == 0 and "Options of plugin slurm" in done.stdout
    assert says in done.stderr and done.stderr.endswith("; it is disabled\n") and done.stderr.count("\n") == 1
    rows = json.loads(llmbx("plugins", "--format", "json").stdout)
    assert any(row["name"] == "odd" and says in row["status"] for row in rows)


RUNTIME = """
from typing import Annotated, ClassVar
from llmbx import hookimpl
from llmbx.api import Image, Option, Runtime, Settings, Wrapping, settings_of

class PrefixSettings(Settings, frozen=True):
    plugin: ClassVar[str] = "prefix"
    folder: Annotated[str, Option(help="Folder of the environment.", variables=("SITE_PREFIX",))] = "/usr"

class PrefixRuntime(Runtime):
    name, summary = "prefix", "an environment of the site"

    def plan(self, request, install):
        return Image(kind="prefix", reference="prefix", python="python3")

    def prepare(self, request, install, progress, offline=False):
        folder = settings_of(request, PrefixSettings).folder
        progress(f"prepared from {folder}")
        return self.plan(request, install).replace(python=f"{folder}/bin/python3")

    def wrap(self, spec, launch, phase, image, run_dir):
        return Wrapping()

@hookimpl
def register_settings():
    return PrefixSettings

@hookimpl
def register_runtimes():
    return [PrefixRuntime()]
"""


def test_a_setting_of_a_third_partys_runtime_reaches_it(package: Package, llmbx: Llmbx, tmp_path: Path) -> None:
    package("prefix", RUNTIME)
    config = tmp_path / "llmbx.toml"
    config.write_text(
        "default_cluster = 'c'\n[clusters.c]\nlauncher = 'local'\n[clusters.c.prefix]\nfolder = '/site'\n"
    )
    for arguments, env, folder in (
        ((), {}, "/site"),
        ((), {"SITE_PREFIX": "/mine"}, "/mine"),
        (("--prefix-folder", "/other"), {"SITE_PREFIX": "/mine"}, "/other"),
    ):
        run = ("run", "line", "--size", "mini", "--gpu-type", "cpu", "--runtime", "prefix", *arguments)
        done = llmbx(*run, LLMBX_CONFIG=str(config), **env)
        assert f"prepared from {folder}" in done.stderr, done.stderr
