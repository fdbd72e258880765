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
    """A run, as `Workspace.find_run` takes it; completes short ids, newest first."""

    name = "run"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        with contextlib.suppress(Exception):  # a shell that waits for words must not get a message
            from ..config.install import Install
            from ..plugins.manager import load

            install = Install.find()
            if incomplete.startswith("@"):
                tags = sorted(f"@{tag}" for tag in load().history.all_tags(install))
                return [CompletionItem(tag) for tag in tags if tag.startswith(incomplete)]
            from ..record.names import complete

            items = [CompletionItem(name, help=text) for name, text in complete(install, incomplete)]
            if "last".startswith(incomplete):
                items.append(CompletionItem("last", help="your newest run"))
            return items
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
