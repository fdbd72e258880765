"""Check that an installed plugin meets the contract: its hooks, and their results for its whole catalog."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import LlmbxError
from ..plugins.discovery import HOOKS, PluginInfo
from ..plugins.manager import Plugins, load
from .framework import framework_problems
from .log_parser import parser_problems
from .profiler import profiler_problems
from .tools import tool_problems


def assert_plugin_ok(name: str, log: str | None = None) -> None:
    """Raise `AssertionError` with all problems of the plugin (see `check_plugin`)."""
    __tracebackhide__ = True
    if found := check_plugin(name, log):
        raise AssertionError("\n".join([f"plugin '{name}' breaks the contract:", *(f"  {text}" for text in found)]))


def check_plugin(name: str, log: str | None = None) -> list[str]:
    """Return all problems of the plugin with this entry point, one line each; empty if it meets the contract.

    Calls every hook that the plugin has: each row of its catalog is resolved and rendered to a launch and a script, its
    log parser gets broken lines (and `log`, a real log of the framework, cut at every position), its profiler wraps a
    launch, its runtimes and launchers must have every member of the interface. Nothing is started or fetched, and
    nothing is written outside a temporary folder.
    """
    plugins = load()
    _ = plugins.settings  # a plugin whose settings class is invalid is disabled here
    info = next((info for info in plugins.infos if info.name == name), None)
    if info is None:
        known = ", ".join(info.name for info in plugins.infos)
        return [f"there is no entry point '{name}' in the group llmbx (known: {known})"]
    if info.error:
        return [f"it cannot be loaded: {info.error}"]
    return list(dict.fromkeys(text for part in PARTS for text in part_problems(info, plugins, part, log)))


PARTS = {"hooks": None, "catalog": "register_workloads", "log": "parse_log", "profiler": "wrap_command", "tools": None}
"""The parts of the contract, and the hook without which a part does not apply."""


def part_problems(info: PluginInfo, plugins: Plugins, part: str, log: str | None = None) -> Iterator[str]:
    """Yield the problems of a plugin that could be loaded in one of `PARTS`."""
    found = {
        "hooks": lambda: _hooks(info, plugins),
        "catalog": lambda: framework_problems(info, plugins),
        "log": lambda: parser_problems(info.name, plugins, log),
        "profiler": lambda: profiler_problems(info, plugins),
        "tools": lambda: tool_problems(info, plugins),
    }
    try:
        if PARTS[part] in (None, *info.hooks):
            yield from found[part]()
    except LlmbxError as error:
        yield str(error)


def _hooks(info: PluginInfo, plugins: Plugins) -> Iterator[str]:
    module = plugins.manager.get_plugin(info.name)
    for hook in HOOKS:
        if callable(getattr(module, hook, None)) and hook not in (*info.hooks, *info.wrappers):
            yield f"{hook} has no @hookimpl: it is never called"
    if not info.hooks and not info.wrappers:
        yield "it implements no hook"
