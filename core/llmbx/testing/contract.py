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
    return list(dict.fromkeys(_problems(info, plugins, log)))


def _problems(info: PluginInfo, plugins: Plugins, log: str | None) -> Iterator[str]:
    module = plugins.manager.get_plugin(info.name)
    for hook in HOOKS:
        if callable(getattr(module, hook, None)) and hook not in info.hooks:
            yield f"{hook} has no @hookimpl: it is never called"
    if not info.hooks:
        yield "it implements no hook"
    parts = (
        ("register_workloads", framework_problems(info, plugins)),
        ("parse_log", parser_problems(info.name, plugins, log)),
        ("wrap_command", profiler_problems(info, plugins)),
        ("", tool_problems(info, plugins)),
    )
    for hook, found in parts:
        try:
            if hook in ("", *info.hooks):
                yield from found
        except LlmbxError as error:
            yield str(error)
