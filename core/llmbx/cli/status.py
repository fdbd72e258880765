"""Show the status of a run: state, reason and step."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..errors import UsageError
from .completion import RUN
from .output import print_json
from .workspace import Workspace, load_workspace


@click.command("status")
@click.argument("run_name", metavar="[RUN]", type=RUN, default="last")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@click.option("--watch", is_flag=True, help="Show progress until the run ends, then its result; as logs --follow.")
def command(run_name: str, format_: str, watch: bool) -> None:
    """Show the status of a run: state, reason and step.

    RUN is a short id or a run id, a unique prefix of one, a folder, a job id, @TAG, or "last" (the default). A run of
    yours that has ended in the meantime is finalized first.
    """
    if watch:
        from .flow import follow_run

        if format_ == "json":
            raise UsageError("--watch cannot be combined with --format json")
        sys.exit(follow_run(run_name, load_workspace()))
    workspace = load_workspace()
    facts = describe(run_name, workspace)
    if format_ == "json":
        print_json(facts)
        return
    for key, value in facts.items():
        if value is not None:
            click.echo(f"{key.replace('_', ' '):<10} {value}")


def describe(run_name: str, workspace: Workspace) -> dict[str, Any]:
    """The status of the run as printed by `status --format json`."""
    from ..record.attempts import stored_attempts
    from ..run.finalize import finalize, job_status, read_log

    run = workspace.find_run(run_name)
    record = run.record
    result = finalize(run, workspace.plugins)
    facts: dict[str, Any] = {
        "id": record.id,
        "run_id": record.run_id,
        "workload": record.spec.workload,
        "status": result.status if result else None,
        "job_id": record.job.job_id if record.job else None,
        "launcher": record.spec.launcher,
        "attempt": result.attempt if result else stored_attempts(run.path),
        "step": None,
        "steps": record.spec.steps,
        "reason": result.cause if result else None,
        "log": str(run.log),
    }
    if result is not None:
        return {**facts, "step": result.steps_seen}
    status = job_status(run, workspace.plugins)
    seen = read_log(run, workspace.plugins).steps
    return {**facts, "status": status.state, "reason": status.reason or None, "step": len(seen)}
