"""Retry a run after an infrastructure failure: keep the files of the failed attempt, start the next one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..launchers.nodes import read_nodes
from ..model import RunSpec
from ..model.run_folder import SCRIPT
from ..record.attempts import archive, next_folder
from ..record.folder import RESULT, Attempt, Record, Run, owns, pretty, read_run, write_record, write_steps
from ..record.host import alive, is_me, myself
from ..run_files import RunFolder
from .launch import render, write_files

if TYPE_CHECKING:
    from ..config.install import Install
    from ..launchers.base import Launcher
    from ..plugins.manager import Plugins
    from .assess import Ended
    from .context import RunContext


def start_next_attempt(
    ended: Ended, context: RunContext, cause: str, report: Callable[[str], None] = lambda line: None
) -> Run:
    """Move the attempt's files to `attempts/N` and start the next attempt, without the node that failed.

    This process owns the run until the new job is recorded, so that if it dies, the end of the old attempt is not taken
    for the end of the new one. Raises `InfraError` if the job cannot be started.
    """
    run, record = ended.run, ended.run.record
    aside = next_folder(run.path)
    node = failed_node(ended)
    spec, launcher, left_out = without_node(record.spec, node, context)
    for line in left_out:
        report(line)
    earlier = Attempt(
        number=int(aside.name), job=record.job, status=ended.result.status, cause=cause,
        exit_code=ended.status.exit_code, node=node, ended=ended.status.ended,
    )  # fmt: skip
    record = record.replace(
        spec=spec, attempt=record.attempt + 1, attempts=(*record.attempts, earlier), job=None, owner=myself()
    )
    write_record(run.path, record)
    archive(run.path, aside)
    write_steps(aside, ended.log.steps)
    RunFolder(path=aside).write(RESULT, pretty(ended.result))
    return _start(Run(folder=run.folder, record=record), context, launcher)


def failed_node(ended: Ended) -> str | None:
    """The node of the failure if it is one of the run's, as the scheduler names it; else the launcher's, if it has one.

    A rank that another one took down may end first, on another node.
    """
    own = ended.result.cause_node
    hosts = {node.host for node in read_nodes(ended.run.path)}
    return own if own in hosts else ended.status.node


def _start(run: Run, context: RunContext, launcher: Launcher) -> Run:
    record = run.record
    assert record.image is not None
    write_files(run.path, render(record.spec, dataclasses.replace(context, launcher=launcher), record.image, run.path))
    job = launcher.submit(run.path / SCRIPT, record.spec, run.path)
    record = record.replace(job=job)
    write_record(run.path, record)
    return Run(folder=run.folder, record=record)


def without_node(spec: RunSpec, node: str | None, context: RunContext) -> tuple[RunSpec, Launcher, list[str]]:
    """Return the specification that excludes `node` and suspects, the launcher for it, and lines about the suspects.

    Nothing is excluded if the user named the nodes, or if the allocation would be too small without them.
    """
    fewer = context.launcher.without_node(spec, node) if node is not None else None
    if fewer is None:
        return spec, context.launcher, []
    fewest, lines = without_suspects(fewer, context.plugins, context.install, "retry")
    for smaller, left_out in ((fewest, lines), (fewer, [])):
        try:
            return smaller, context.plugins.launcher(spec.launcher).inside(smaller), left_out
        except UsageError:
            continue
    return spec, context.launcher, []


def may_take_over(run: Run, launcher: Launcher) -> bool:
    """Whether this process may retry the run: it is its user's, attempts are left, and its owner is gone.

    Only batch jobs are taken over: a run on the user's own machine is not restarted from another shell.
    """
    record = run.record
    left = record.attempt < record.spec.retries
    if not owns(run) or not left or launcher.attended or (record.job and record.job.process):
        return False
    return record.owner is None or is_me(record.owner) or alive(record.owner) is False


def take_over(run: Run) -> Run:
    """Make this process the owner of the run."""
    record: Record = read_run(run.path).record.replace(owner=myself())
    write_record(run.path, record)
    return Run(folder=run.folder, record=record)


def without_suspects(spec: RunSpec, plugins: Plugins, install: Install, occasion: str) -> tuple[RunSpec, list[str]]:
    """Return the specification without the suspected nodes, and a line for the user about each.

    Nothing is left out if the user named the nodes.
    """
    launcher, lines = plugins.launcher(spec.launcher), []
    for node, reason in plugins.suspect_nodes(spec, install, occasion).items():
        fewer = launcher.without_node(spec, node)
        if fewer is None:
            break
        spec = fewer
        lines.append(f"without {node}: {reason}")
    return spec, lines
