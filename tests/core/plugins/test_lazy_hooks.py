"""A plugin's hooks in other modules, which are imported on the first call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmbx.api import Settings, UsageError
from llmbx.plugins.manager import Plugins

from .conftest import Package

PLUGIN = """
from llmbx.api import lazy_hooks

globals().update(
    lazy_hooks("elsewhere", register_settings="own:OwnSettings", check_spec="rules:findings", parse_log="rules:formats")
)
"""
RULES = """
from llmbx.api import LogFormat, UsageError

def findings(spec):
    raise UsageError(f"asked for {spec}")

def formats():
    return [LogFormat(name="lazy", title="Lazy", sniff=len, parser=object)]
"""
OWN = """
from typing import ClassVar
from llmbx.api import Settings

class OwnSettings(Settings, frozen=True):
    plugin: ClassVar[str] = "lazy"
"""


@pytest.fixture
def lazy(package: Package, site: Path, loaded: Callable[[], Plugins]) -> Iterator[Plugins]:
    """The plugins with one of which the hooks are in the package `elsewhere`."""
    package("lazy", PLUGIN)
    (site / "elsewhere").mkdir()
    for name, code in (("__init__", ""), ("rules", RULES), ("own", OWN)):
        (site / "elsewhere" / f"{name}.py").write_text(code)
    yield loaded()
    for name in [name for name in sys.modules if name.partition(".")[0] == "elsewhere"]:
        del sys.modules[name]


def test_a_module_is_imported_on_the_first_call_of_its_hook(lazy: Plugins) -> None:
    info = next(info for info in lazy.infos if info.name == "lazy")
    assert (info.error, info.hooks) == (None, ("check_spec", "parse_log", "register_settings"))
    assert "elsewhere.rules" not in sys.modules
    with pytest.raises(UsageError, match="asked for None"):
        lazy.ask("lazy", "check_spec", spec=None)
    assert "elsewhere.rules" in sys.modules


def test_a_function_gets_the_arguments_that_it_needs_and_settings_are_a_class(lazy: Plugins) -> None:
    ((log_format,),) = lazy.ask("lazy", "parse_log", spec=None)
    assert log_format.name == "lazy"
    settings = lazy.settings["lazy"]
    assert issubclass(settings, Settings) and settings.__name__ == "OwnSettings"


def test_an_unknown_hook_is_named(package: Package, loaded: Callable[[], Plugins]) -> None:
    package("lazy", PLUGIN.replace("check_spec", "chek_spec"))
    (info,) = loaded().broken
    assert info.error == "lazy_hooks: unknown hook 'chek_spec' (did you mean 'check_spec'?)"
