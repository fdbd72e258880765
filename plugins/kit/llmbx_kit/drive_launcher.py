"""Drive a launcher: real jobs are followed, found again, failed, cancelled, and wait."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec

from llmbx.api import Launcher, RunSpec

from .again import Again, Answer
from .driven import CODE, Driven, Fault, Place, shown
from .outcome import Found

CLOCK_S = 600.0
"""Tolerated difference between the clocks of this machine and of the ranks, in seconds."""


def drive_launcher(launcher: Launcher, spec: RunSpec, place: Place) -> list[Found]:
    """Return what each part of the drive found. Each job ends by itself after two minutes."""
    if why_not := launcher.available():
        return [("not checked", [f"it cannot be used here: {why_not}"])]
    drive, problems = Drive(launcher, spec, place), list[str]()
    try:
        for text in place.drive(drive.run, drive.fail, drive.cancel):
            problems.append(text)
    except Waits as waits:
        if not problems:
            return [("not checked", [str(waits)])]
    if problems:
        return [("failed", problems)]
    passed = "a job runs and is found again, fails with its exit code, is cancelled"
    if not drive.not_waited or launcher.attended:
        return [("ok", [f"{passed}{', waits' if drive.waited else ''}"])]
    return [("ok", [passed]), ("not checked", [f"a job that waits: {drive.not_waited}"])]


class Waits(Exception):
    """The scheduler starts no job now; the message says for how long it was waited."""


class Drive:
    """The parts of a drive; `not_waited` is why no job had to wait."""

    def __init__(self, launcher: Launcher, spec: RunSpec, place: Place) -> None:
        self.launcher, self.spec, self.place = launcher, spec, place
        self.waited, self.not_waited = False, ""

    def run(self) -> Iterator[str]:
        """Two ranks that wait for a file: follow the job, find it again, let it end."""
        began = time.time()
        driven = self._start("run", "wait", "0")
        if driven.job.launcher != self.launcher.name:
            other = driven.job.launcher
            raise Fault(
                f"submit returned a job of the launcher '{other}': llmbx asks that one for it"
            )
        if not driven.job.job_id:
            raise Fault("submit returned a job without an id")
        if not driven.comes(lambda: driven.has("started", 1)):
            yield from self._never_starts(driven)
        driven.wait(
            "status does not say 'running', although a rank runs,",
            lambda: driven.status().state == "running",
        )
        yield from self.again(driven)
        self.launcher.dump_stacks(driven.job, driven.folder)
        if driven.status().state != "running":
            raise Fault(f"dump_stacks stopped the job: its status is {shown(driven.status())}")
        driven.let_go()
        driven.wait("its ranks have not ended", lambda: driven.has("ended"))
        end = driven.ended("the job has not ended, although its ranks have,")
        if (end.exit_code, end.verdict) != (0, None):
            yield f"status says {shown(end)}, verdict {end.verdict}, of a job that succeeded"
        if end.started is not None and abs(end.started - began) > CLOCK_S:
            yield f"status says that the ranks started at {end.started}, expected epoch seconds"
        yield from driven.problems()

    def fail(self) -> Iterator[str]:
        """A job whose last rank fails."""
        driven = self._start("fail", "end", str(CODE))
        end = driven.ended(f"the job has not ended, although its last rank failed with {CODE},")
        if end.exit_code != CODE:
            yield f"status says {shown(end)} of a job whose rank 1 exited with {CODE}"
        elif end.rank not in (None, 1):
            yield f"status says that rank {end.rank} failed first: it was rank 1"

    def cancel(self) -> Iterator[str]:
        """A job that works until it is cancelled, and one behind it that may have to wait."""
        working = self._start("cancel", "beat", "0")
        working.wait("no rank has started", lambda: working.has("beat", 1))
        behind = self._start("behind", "end", "0")
        yield from self._behind(behind)
        self.launcher.cancel(working.job, working.folder)
        end = working.ended("the job has not ended, although it was cancelled,")
        if end.exit_code == 0 and end.verdict is None:
            yield f"status says {shown(end)} of a job that was cancelled"
        if working.goes_on():
            yield "a rank still works after its job was cancelled and status says that it has ended"
        if self.waited and behind.has("started", 1):
            yield "a job that was cancelled while it waited has run all the same"

    def _behind(self, driven: Driven) -> Iterator[str]:
        """The job behind a working one starts at once, or waits until it is cancelled."""
        status = driven.status()

        def settled() -> bool:
            nonlocal status
            status = driven.status()
            return status.state != "running" or driven.has("started", 1)

        if not driven.comes(settled):
            waits = "of a job that waits behind another one, expected 'pending'"
            raise Fault(f"status says {shown(status)} {waits}")
        if status.state != "pending":
            self.not_waited = "a second job starts at once, beside the first"
            driven.ended("the second job has not ended")
            return
        yield from self._cancel_pending(driven)
        self.waited = not driven.has("started", 1)
        self.not_waited = "" if self.waited else "a second job starts soon, beside the first"

    def _never_starts(self, driven: Driven) -> Iterator[str]:
        """A job that waits for too long can at least be cancelled.

        Raises `Waits`, or `Fault` if it does not wait.
        """
        status = driven.status()
        if status.state != "pending":
            end = f"{shown(status)}{driven.last_line()}"
            raise Fault(f"no rank has started; the job's status is {end}")
        yield from self._cancel_pending(driven)
        waited = f"the first one waited for {driven.patience_s:g} s ({status.reason})"
        raise Waits(f"no job could be driven: {waited}")

    def _cancel_pending(self, driven: Driven) -> Iterator[str]:
        self.launcher.cancel_pending(driven.job, driven.folder)
        end = driven.settled(
            "a job that waits is still there, although it was cancelled,", "pending", "running"
        )
        if not driven.has("started", 1) and (end.state == "lost" or end.exit_code == 0):
            cancelled = "of a job that was cancelled while it waited, expected 'ended'"
            yield f"status says {shown(end)} {cancelled}"

    def _start(self, name: str, *does: str) -> Driven:
        name = f"{self.launcher.name}-{name}"
        return self.place.start(self.launcher, name, *does, spec=self.spec)

    def again(self, driven: Driven) -> Iterator[str]:
        """Ask another process for a running job, by its record and by its folder."""
        question = Again(
            launcher=self.launcher.name,
            job=driven.job,
            spec=driven.spec,
            folder=str(driven.folder),
        )
        done = subprocess.run(
            [sys.executable, "-P", "-m", f"{__package__}.again"],
            input=msgspec.json.encode(question),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            last = lines[-1] if lines else "no error message"
            raise Fault(f"another process cannot find the job: {last}")
        answer = msgspec.json.decode(done.stdout, type=Answer)
        if answer.status.state != "running":
            status = shown(answer.status)
            yield f"in another process status says {status} of the job, expected 'running'"
        if answer.found is None:
            yield (
                "find does not return the job of a run folder whose script has started: after a "
                "crash of llmbx such a run is given up while its job works"
            )
        elif answer.found.job_id.partition(";")[0] != driven.job.job_id.partition(";")[0]:
            yield f"find returns the job {answer.found.job_id}, expected {driven.job.job_id}"
