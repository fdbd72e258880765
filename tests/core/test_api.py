"""The public surface: every name is there, costs nothing until it is used, and has a version."""

from __future__ import annotations

import ast
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pluggy
import pytest

import llmbx.api
import llmbx.api.contract
import llmbx.api.verbs
import llmbx.testing
from llmbx import hookimpl, hookspecs
from llmbx.errors import PluginError
from llmbx.plugins.discovery import _check_hooks, _check_version

LISTS = [llmbx.api, llmbx.api.contract, llmbx.api.verbs, llmbx.testing]


@pytest.mark.parametrize("module", LISTS, ids=lambda module: str(module.__name__))
def test_every_public_name_can_be_imported_and_is_not_a_module(module: types.ModuleType) -> None:
    assert [name for name in dir(module) if isinstance(getattr(module, name), types.ModuleType | None)] == []


@pytest.mark.parametrize("module", LISTS, ids=lambda module: str(module.__name__))
def test_type_checkers_see_the_names_that_python_finds(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (node.module or "", alias.asname or alias.name, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    pairs = [(place, word) for place, words in module.PLACES.items() for word in words.split()]
    assert seen == {(place, word.partition(":")[0], word.rpartition(":")[2]) for place, word in pairs}


@pytest.mark.parametrize(
    ("module", "most"),
    [(llmbx.api, 130), (llmbx.api.verbs, 60), (llmbx.api.contract, 16)],
    ids=["api", "verbs", "contract"],
)
def test_the_surface_is_small(module: types.ModuleType, most: int) -> None:
    assert len(dir(module)) <= most


def test_a_name_is_public_in_one_place() -> None:
    names = [name for module in LISTS for name in dir(module)]
    assert len(names) == len(set(names))


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"llmbx\.api has no name 'World2'"):
        llmbx.api.World2  # noqa: B018


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys, llmbx.api; print([m for m in sys.modules if m in ('msgspec', 'click', 'pluggy', 'ast')])"
    done = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ((0, 9), "it requires llmbx.api 0.9, but this is 1.0: update the plugin"),
        ((1, 1), "it requires llmbx.api 1.1, but this is 1.0: update llmbx"),
        ((2, 0), "it requires llmbx.api 2.0, but this is 1.0: update llmbx"),
        ("1.0", r"LLMBX_API is '1.0', expected \(major, minor\)"),
    ],
)
def test_a_plugin_for_another_version_is_refused(wanted: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hookspecs, "VERSION", (1, 0))
    plugin = types.SimpleNamespace(LLMBX_API=wanted)
    with pytest.raises(PluginError, match=says):
        _check_version(plugin)
    _check_version(types.SimpleNamespace(LLMBX_API=(1, 0)))
    _check_version(types.SimpleNamespace())


def test_an_optional_hook_of_a_newer_llmbx_is_ignored() -> None:
    class Newer:
        @hookimpl(optionalhook=True)
        def explain_everything(self) -> None: ...

    class Wrong:
        @hookimpl
        def register_workload(self) -> None: ...

    manager = pluggy.PluginManager("llmbx")
    manager.add_hookspecs(hookspecs)
    newer, wrong = Newer(), Wrong()
    manager.register(newer)
    manager.register(wrong)
    _check_hooks(manager, newer)
    with pytest.raises(PluginError, match=r"unknown hook 'register_workload'.*did you mean 'register_workloads'"):
        _check_hooks(manager, wrong)
