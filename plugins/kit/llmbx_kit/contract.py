"""Check what a plugin returns to llmbx, for its whole catalog; nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from llmbx.api import UsageError
from llmbx.api.contract import HOOKS

from .framework import framework_problems
from .log_parser import parser_problems
from .outcome import described
from .profiler import profiler_problems
from .subject import Subject
from .tools import tool_problems


def assert_plugin_ok(name: str, log: str | None = None) -> None:
    """Raise `AssertionError` with all problems of the plugin (see `check_plugin`)."""
    __tracebackhide__ = True
    if problems := check_plugin(name, log):
        lines = [f"plugin '{name}' breaks the contract:", *(f"  {text}" for text in problems)]
        raise AssertionError("\n".join(lines))


def check_plugin(name: str, log: str | None = None) -> list[str]:
    """Return all problems of the plugin with this entry point, one line each; empty if it has none.

    Calls every hook that the plugin has: each row of its catalog is resolved and rendered to a
    launch and a script, its log parser gets broken lines (and `log`, a real log of the framework,
    cut at every position), its profiler wraps a launch, its runtimes and launchers must have every
    member of the interface. Nothing is started or fetched, and nothing is written outside a
    temporary folder.
    """
    try:
        subject = Subject(name, log)
    except UsageError as error:
        return [str(error)]
    if subject.info.error:
        return [f"it cannot be loaded: {subject.info.error}"]
    return [text for part in PARTS for text in part_problems(subject, part)]


def part_problems(subject: Subject, part: str) -> list[str]:
    """Return the problems of a plugin that could be loaded in one of `PARTS`."""
    hook, check = PARTS[part]
    if hook and hook not in subject.info.hooks:
        return []
    problems: dict[str, None] = {}
    try:
        for problem in check(subject):
            problems[problem] = None
    except (Exception, SystemExit) as error:
        problems[described(error)] = None
    return [*problems]


def hook_problems(subject: Subject) -> Iterator[str]:
    """Yield the functions that are never called, because they are not marked as hooks."""
    info = subject.info
    module = subject.plugins.manager.get_plugin(info.name)
    for hook in HOOKS:
        if callable(getattr(module, hook, None)) and hook not in (*info.hooks, *info.wrappers):
            yield f"{hook} has no @hookimpl: it is never called"
    if not info.hooks and not info.wrappers:
        yield "it implements no hook"


PARTS: dict[str, tuple[str, Callable[[Subject], Iterator[str]]]] = {
    "hooks": ("", hook_problems),
    "catalog": ("register_workloads", framework_problems),
    "log": ("parse_log", parser_problems),
    "profiler": ("wrap_command", profiler_problems),
    "tools": ("", tool_problems),
}
"""The parts of the contract: the hook without which a part does not apply, and its problems."""
