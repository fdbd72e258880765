"""List the runs of this install and how they stand."""

from __future__ import annotations

import time

import click
import msgspec

from ..errors import UsageError, did_you_mean
from .options import world
from .output import format_option, print_rows

COLUMNS = ("run_id", "workload", "size", "dtype", "gpus", "status", "step_time_s", "tflops_per_gpu", "age")
FILTERS = ("workload", "size", "dtype", "gpu_type", "status")


@click.command("jobs")
@click.option("--workload", help="Only runs of this workload (name or alias).")
@click.option("--size", help="Only this size.")
@click.option("--dtype", help="Only this dtype.")
@click.option("--gpu-type", help="Only this GPU type.")
@click.option("--status", help="Only runs with this status: completed, failed, running …")
@click.option("--tag", help="Only runs with this tag.")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=None, help="Only the newest so many.")
@format_option
def command(
    workload: str | None,
    size: str | None,
    dtype: str | None,
    gpu_type: str | None,
    status: str | None,
    tag: str | None,
    limit: int | None,
    format_: str,
) -> None:
    """List the runs of this install, newest first.

    A run that has ended since it was last looked at gets its result now, also when the llmbx that started it was
    killed. The folder of a run holds everything: run.json, result.json, steps.jsonl, the log and the script.

    \b
    Examples:
      llmbx jobs
      llmbx jobs --workload grok1 --status failed --format json
    """
    from ..history import entries

    here = world()
    wanted = {"workload": workload, "size": size, "dtype": dtype, "gpu_type": gpu_type, "status": status}
    if workload:
        wanted["workload"] = here.plugins.workload(workload).name
    if status:
        _check_status(status)
    found = [
        item
        for item in entries(here.install, here.plugins)
        if all(value in (None, getattr(item, key)) for key, value in wanted.items())
        and (tag is None or tag in item.tags)
    ]
    now = time.time()
    rows = [{**msgspec.to_builtins(item), "age": age(now - item.created)} for item in found[:limit]]
    print_rows(rows, COLUMNS, format_, empty=f"no runs in {here.install.root}")


def age(seconds: float) -> str:
    """How long ago, in the largest fitting unit: `12 s`, `5 min`, `3 h`, `4 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def _check_status(status: str) -> None:
    from typing import get_args

    from ..model.job import JobState
    from ..model.result import Status

    known = (*get_args(Status), *get_args(JobState))
    if status not in known:
        raise UsageError(f"--status {status}: no such status{did_you_mean(status, known)}")
