"""Settings that take what belongs to llmbx or to another plugin are refused when the plugin is loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import click
import pytest

from llmbx.cli.main import cli
from llmbx.plugins.manager import Plugins
from llmbx.plugins.settings_check import RESERVED

from .conftest import Llmbx, Package

SETTINGS = """
from typing import Annotated, ClassVar
from llmbx.api import Option, Settings, hookimpl

class Mine(Settings, frozen=True):
    plugin: ClassVar[str] = "{name}"
    {field}: Annotated[{kind}, Option(help="", {option})] = None

@hookimpl
def register_settings():
    return Mine
"""


def code(name: str = "mine", field: str = "steps_", kind: str = "int | None", option: str = "") -> str:
    return SETTINGS.format(name=name, field=field, kind=kind, option=option)


def test_the_options_of_core_are_reserved() -> None:
    context = click.Context(cli, help_option_names=["-h", "--help"])
    options = {"-h"}  # click makes the option --help of a command once, and other tests have no -h in their contexts
    for verb in ("run", "show", "profile"):
        command = cli.get_command(context, verb)
        assert command is not None
        for param in click.Command.get_params(command, context):
            options |= {*param.opts, *param.secondary_opts} if isinstance(param, click.Option) else set()
    assert options == RESERVED


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (code(option="name='--steps'"), "the option --steps (setting 'steps_') belongs to llmbx itself"),
        (code(option="name='--scale'"), "the option --scale (setting 'steps_') belongs to llmbx itself"),
        (code(option="name='-s'"), "the option -s (setting 'steps_') belongs to llmbx itself"),
        (code(option="name='--ranks'"), "the option --ranks (setting 'steps_') belongs to llmbx itself"),
        (code(option="name='--gpu-metrics'"), "the option --gpu-metrics already belongs to plugin 'nsys'"),
        (code(option="name='--no-preflight'"), "the option --no-preflight already belongs to plugin 'slurm'"),
        (code(option="name='steps'"), "the setting 'steps_' has the option 'steps', expected --NAME of a-z, 0-9 and -"),
        (code(option="variables=('GPU_TYPE',)"), "the variable GPU_TYPE (setting 'steps_') belongs to llmbx itself"),
        (code(option="variables=('ENABLE_NCCLTRACE',)"),
         "the variable ENABLE_NCCLTRACE already belongs to plugin 'nccltrace'"),
        (code(field="launcher"), "the setting 'launcher' has the name of llmbx's own key of a cluster profile"),
        (code(option="name='--x', variables=('X', 'X')"), "two of its settings have X"),
    ],
)  # fmt: skip
def test_what_is_taken_is_refused_in_one_line(
    package: Package, loaded: Callable[[], Plugins], capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    package("mine", text)
    plugins = loaded()
    assert "mine" not in plugins.settings and {"slurm", "nsys", "nccltrace"} <= {*plugins.settings}
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"llmbx: plugin 'mine': {says}"), lines
    assert lines[0].endswith("; it is disabled")


def test_a_plugin_with_the_name_of_a_key_of_a_cluster_profile(
    package: Package, loaded: Callable[[], Plugins], capsys: pytest.CaptureFixture[str]
) -> None:
    package("runtime", code(name="runtime"))
    assert "runtime" not in loaded().settings
    assert "its table in a cluster profile has the name of llmbx's own key 'runtime'" in capsys.readouterr().err


def test_the_option_of_core_still_works(package: Package, llmbx: Llmbx) -> None:
    package("mine", code(option="name='--steps'"))
    shown = llmbx("show", "nemo", "grok1", "--gpu-type", "gb200", "--gpus", "128", "--steps", "77", "--format", "json")
    assert shown.returncode == 0 and "plugin 'mine': the option --steps" in shown.stderr
    assert "77" in json.dumps(json.loads(shown.stdout))
    rows = json.loads(llmbx("plugins", "--format", "json").stdout)
    assert ["--steps" in row["status"] for row in rows if row["name"] == "mine"] == [True]


def test_an_option_of_another_plugins_command_is_refused_there(package: Package, llmbx: Llmbx) -> None:
    package("mine", code(option="name='--max-jobs'"))
    shown = llmbx("sweep", "--help", PATH=os.environ["PATH"])
    assert shown.returncode == 0 and "Options of plugin mine" not in shown.stdout
    assert "plugin 'mine': the option --max-jobs is one of `llmbx sweep`; it is disabled" in shown.stderr
