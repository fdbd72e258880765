"""A run that is cancelled while its job waits is cancelled, also if its launcher loses such jobs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from .conftest import Llmbx, Package

TOY = Path(__file__).parents[2] / "fixtures/toy/src"

QUEUE = """
from llmbx import hookimpl
from llmbx.api import Job, JobStatus
from llmbx.launchers.local import LocalLauncher

class Queue(LocalLauncher):
    name = "queue"
    attended = False

    def submit(self, script, spec, run_dir):
        (run_dir / "queued").touch()
        return Job(launcher="queue", job_id="1", submitted=1.0)

    def status(self, job, run_dir):
        return JobStatus(state="pending" if (run_dir / "queued").exists() else "lost")

    def cancel(self, job, run_dir):
        {cancel}
        (run_dir / "queued").unlink()

@hookimpl
def register_launchers():
    return [Queue()]
"""


@pytest.mark.parametrize("works", [True, False])
def test_a_run_that_is_cancelled_in_the_queue(package: Package, llmbx: Llmbx, site: Path, works: bool) -> None:
    file = package("queue", QUEUE.format(cancel="pass" if works else "raise OSError('the queue does not answer')"))
    environ = {"PYTHONPATH": f"{site}:{TOY}", "LLMBX_PYTHON": sys.executable}
    started = llmbx("run", "toy", "line", "--launcher", "queue", "--detach", **environ)
    assert started.returncode == 0, started.stderr
    cancelled = llmbx("cancel", "last", **environ)
    if not works:  # what happens to the job later is not the work of `llmbx cancel`
        assert cancelled.returncode == 2 and "the queue does not answer" in cancelled.stderr
        file.write_text(QUEUE.format(cancel="pass").replace('"pending" if', '"lost" if'))
    (row,) = json.loads(llmbx("jobs", "--format", "json", **environ).stdout)
    assert row["status"] == ("cancelled" if works else "lost")
