"""Values that the shell completes: short ids of runs, workloads and plugins.

Click generates the shell functions; docs/tools.md tells how to enable them. Nothing here is imported by a command that
does not complete: the parameter types only name the functions.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class RunName(click.types.StringParamType):
    """A run, as `llmbx.history.find_run` takes it; completes short ids, newest first."""

    name = "run"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        with contextlib.suppress(Exception):  # a shell that waits for words must not get a message
            from ..history import complete, known_tags
            from .workspace import install_and_plugins

            install, _ = install_and_plugins()
            if incomplete.startswith("@"):
                return [
                    CompletionItem(f"@{tag}") for tag in sorted(known_tags(install)) if tag.startswith(incomplete[1:])
                ]
            found = [CompletionItem(name, help=what) for name, what in complete(install, incomplete)]
            return [
                *found,
                *(CompletionItem("last", help="your newest run") for _ in [0] if "last".startswith(incomplete)),
            ]
        return []


class WorkloadName(click.types.StringParamType):
    """A workload or a plugin."""

    name = "workload"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        with contextlib.suppress(Exception):
            from ..plugins.manager import load

            plugins = load()
            names = sorted({name for workload in plugins.workloads for name in (workload.name, workload.plugin)})
            return [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return []


RUN = RunName()
WORKLOAD = WorkloadName()
