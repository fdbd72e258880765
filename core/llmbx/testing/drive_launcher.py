"""Drive a launcher: submit real jobs, follow them, find them again, let one fail, cancel one, and let one wait."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec

from ..launchers.base import Launcher
from ..model import Job, JobStatus, RunSpec
from .again import Again, Answer
from .driven import CODE, Driven, Fault, Place, parts, shown
from .outcome import Found
from .typed import ill_typed

CLOCK_S = 600.0
"""Tolerated difference between the clocks of this machine and of the ranks, in seconds."""


def drive_launcher(launcher: Launcher, spec: RunSpec, place: Place) -> list[Found]:
    """Return what each part of the drive found. Each job ends by itself after two minutes."""
    if why_not := launcher.available():
        return [("not checked", [f"it cannot be used here: {why_not}"])]
    drive, problems = Drive(launcher, spec, place), list[str]()
    try:
        for _, text in parts({"run": drive.run, "fail": drive.fail, "cancel": drive.cancel}):
            problems.append(text)
    except Waits as waits:
        return [("failed", problems)] if problems else [("not checked", [str(waits)])]
    finally:
        place.close()
    if problems:
        return [("failed", problems)]
    done = "a job runs and is found again, fails with its exit code, is cancelled"
    if not drive.not_waited or launcher.attended:
        return [("ok", [f"{done}{', waits' if drive.waited else ''}"])]
    return [("ok", [done]), ("not checked", [f"a job that waits: {drive.not_waited}"])]


class Waits(Exception):
    """The scheduler starts no job now; the message says for how long it was waited."""


class Drive:
    """The parts of a drive; `not_waited` is why no job had to wait."""

    def __init__(self, launcher: Launcher, spec: RunSpec, place: Place) -> None:
        self.launcher, self.spec, self.place = launcher, spec, place
        self.waited, self.not_waited = False, ""

    def run(self) -> Iterator[str]:
        """A job of two ranks that wait for a file: follow it, find it again from another process, let it end."""
        driven = self._start("run", "wait", "0")
        began = time.time()
        assert driven.job is not None
        for problem in ill_typed(driven.job, Job, "submit"):
            raise Fault(problem)
        if driven.job.launcher != self.launcher.name:
            raise Fault(f"submit returned a job of the launcher '{driven.job.launcher}': llmbx asks that one for it")
        if not driven.job.job_id:
            raise Fault("submit returned a job without an id")
        yield from ill_typed(driven.status(), JobStatus, "status")
        if not driven.comes(lambda: driven.has("started", 1)):
            yield from self._never_starts(driven)
        driven.wait("status does not say 'running', although a rank runs,", lambda: driven.status().state == "running")
        yield from self.again(driven)
        self.launcher.dump_stacks(driven.job, driven.folder)
        if driven.status().state != "running":
            raise Fault(f"dump_stacks stopped the job: its status is {shown(driven.status())}")
        driven.let_go()
        driven.wait("its ranks have not ended", lambda: driven.has("ended"))
        end = driven.ended("the job has not ended, although its ranks have,")
        if (end.exit_code, end.verdict) != (0, None):
            yield f"status says {shown(end)}, verdict {end.verdict}, of a job that succeeded"
        if end.started is not None and not began - CLOCK_S < end.started < time.time() + CLOCK_S:
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
        assert working.job is not None
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
        seen: list[JobStatus] = []

        def settled() -> bool:
            seen.append(driven.status())
            return seen[-1].state != "running" or driven.has("started", 1)

        if not driven.comes(settled):
            raise Fault(f"status says {shown(seen[-1])} of a job that waits behind another one, expected 'pending'")
        if seen[-1].state != "pending":
            self.not_waited = "a second job starts at once, beside the first"
            driven.ended("the second job has not ended")
            return
        yield from self._cancel_pending(driven)
        self.waited = not driven.has("started", 1)
        self.not_waited = "" if self.waited else "a second job starts soon, beside the first"

    def _never_starts(self, driven: Driven) -> Iterator[str]:
        """A job that waits for too long can at least be cancelled. Raises `Waits`, or `Fault` if it does not wait."""
        status = driven.status()
        if status.state != "pending":
            raise Fault(f"no rank has started; the job's status is {shown(status)}{driven.last_line()}")
        yield from self._cancel_pending(driven)
        raise Waits(f"no job could be driven: the first one waited for {self.place.patience_s:g} s ({status.reason})")

    def _cancel_pending(self, driven: Driven) -> Iterator[str]:
        assert driven.job is not None
        self.launcher.cancel_pending(driven.job, driven.folder)
        gone: list[JobStatus] = []

        def over() -> bool:
            gone.append(driven.status())
            return gone[-1].state not in ("pending", "running")

        driven.wait("a job that waits is still there, although it was cancelled,", over)
        if not driven.has("started", 1) and (gone[-1].state == "lost" or gone[-1].exit_code == 0):
            yield f"status says {shown(gone[-1])} of a job that was cancelled while it waited, expected 'ended'"

    def _start(self, name: str, *does: str) -> Driven:
        return self.place.start(self.launcher, f"{self.launcher.name}-{name}", *does, spec=self.spec)

    def again(self, driven: Driven) -> Iterator[str]:
        """Ask another process for a running job, by its record and by its folder."""
        assert driven.job is not None
        question = Again(launcher=self.launcher.name, job=driven.job, spec=driven.spec, folder=str(driven.folder))
        done = subprocess.run(
            [sys.executable, "-P", "-m", f"{__package__}.again"],
            input=msgspec.json.encode(question),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no error message"])[-1]
            raise Fault(f"another process cannot find the job: {last}")
        answer = msgspec.json.decode(done.stdout, type=Answer)
        if answer.status.state != "running":
            yield f"in another process status says {shown(answer.status)} of the job, expected 'running'"
        if answer.found is None:
            yield (
                "find does not return the job of a run folder whose script has started: after a crash of llmbx such a "
                "run is given up while its job works"
            )
        elif answer.found.job_id.partition(";")[0] != driven.job.job_id.partition(";")[0]:
            yield f"find returns the job {answer.found.job_id}, expected {driven.job.job_id}"
