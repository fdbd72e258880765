"""Cancel a run: stop its ranks, keep its steps, and record that it was cancelled."""

from __future__ import annotations

import time

import click

from ..errors import InfraError, UsageError
from .completion import RUN
from .workspace import load_workspace

WAIT_S = 60.0


@click.command("cancel")
@click.argument("run_name", metavar="RUN", type=RUN)
def command(run_name: str) -> None:
    """Cancel a run.

    RUN is a short id or a run id, a unique prefix of one, a folder, a job id, or "last". The ranks are stopped,
    the steps logged so far are kept, and the result has the status cancelled. Only the owner of a run can cancel it.
    """
    from ..record.folder import owns
    from ..run.cancellation import noted
    from ..run.finalize import finalize, launcher_of

    workspace = load_workspace()
    run = workspace.find_run(run_name)
    if not owns(run):  # what its record names, a process of this user for example, is not its word to have stopped
        raise InfraError(f"{run.record.id} belongs to {run.files.owner}, who alone can cancel it with llmbx")
    ended = finalize(run, workspace.plugins)
    if ended is not None:
        raise UsageError(f"{run.record.id} has already ended ({ended.status})")
    if run.record.job is None:
        raise UsageError(f"{run.record.run_id} is still being prepared: press Ctrl-C where it was started")
    with noted(run.files):
        launcher_of(run, workspace.plugins).cancel(run.record.job, run.path)
    end = time.monotonic() + WAIT_S
    while (result := finalize(run, workspace.plugins)) is None:
        if time.monotonic() > end:
            raise InfraError(f"{run.record.run_id} is still running after {WAIT_S:.0f} s; check it with `llmbx status`")
        time.sleep(0.5)
    click.echo(f"{run.record.run_id}: {result.status} after {result.steps_seen} steps")
