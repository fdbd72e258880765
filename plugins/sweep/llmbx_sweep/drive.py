"""Keeping a sweep going: submits as many runs as may be at once, watches them all, and writes their results."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Protocol

from llmbx.errors import InfraError, LlmbxError
from llmbx.launchers.base import Launcher, Unreachable
from llmbx.model import JobStatus, Result
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Run, read_result
from llmbx.run.context import RunContext
from llmbx.run.finalize import conclude
from llmbx.run.follow import STACK_GRACE_S
from llmbx.run.pipeline import close
from llmbx.run.recovery import recover
from llmbx.run.retry import may_take_over, take_over

from .census import Census, Slot
from .start import Doubtful, Refused, Starter

SUBMITTERS = 4
"""How many runs are being submitted at a time: sbatch spends most of its time waiting for the controller."""

BREATH_S = 0.05
SILENCE_S = 5.0
"""How long a controller that did not answer is left alone."""

REFUSALS = 3
"""After so many refusals in a row, with nothing accepted between them, the sweep stops: all would be refused."""


class Told(Protocol):
    """What is told of a sweep's progress."""

    def ended(self, slot: Slot, result: Result, ended: int, going: int, waiting: int) -> None:
        """A run has its result; so many have one now, so many go on, so many are still to be started."""

    def note(self, text: str) -> None:
        """Something a user should know."""

    def attend(self, run: Run, rooms: RunContext) -> Result:
        """Follow a run that lives with its user to its end."""


class Driver:
    """One sweep on its way. `done`, `going` and `todo` say how it stands, also after an interruption.

    A scheduler that falls silent is waited for; one that has never answered only by a `patient` driver.
    """

    def __init__(
        self,
        starter: Starter,
        census: Census,
        launcher: Launcher,
        plugins: Plugins,
        told: Told,
        max_jobs: int,
        patient: bool = False,
    ) -> None:
        self.starter = starter
        self.launcher = launcher
        self.plugins = plugins
        self.told = told
        self.max_jobs = max_jobs
        self.done: dict[Slot, Result] = dict(census.done)
        self.going: dict[Slot, Run] = dict(census.going)
        self.todo: deque[Slot] = deque(census.missing)
        self.doubtful: dict[Slot, Run] = {}
        self._starting: dict[Future[Run], Slot] = {}
        self._silent_until = 0.0
        self._silence_said = False
        self._answered = patient
        self._looked = 0.0
        self._refused = 0

    def run(self) -> dict[Slot, Result]:
        """Drive the sweep to its end; every slot's result. Raises `InfraError` when the scheduler takes nothing.

        KeyboardInterrupt passes through once the runs that are just being submitted have their job ids.
        """
        for slot, run in self.going.items():
            if may_take_over(run, self.launcher):
                self.going[slot] = take_over(run)
        if self.launcher.attended:
            return self._one_by_one()
        try:
            with ThreadPoolExecutor(SUBMITTERS) as pool:
                while self.todo or self._starting or self.going or self.doubtful:
                    self._turn(pool)
        finally:
            for future, slot in self._starting.items():
                if not future.cancelled() and future.exception() is None:
                    self.going[slot] = future.result()
        return self.done

    def _turn(self, pool: ThreadPoolExecutor) -> None:
        self._pump(pool)
        self._doubts()
        self._look(pool)
        if self._starting:
            wait(self._starting, timeout=BREATH_S, return_when=FIRST_COMPLETED)
        else:
            time.sleep(BREATH_S)

    def _one_by_one(self) -> dict[Slot, Result]:
        """Runs that live with their user: one at a time, followed live."""
        for slot, run in list(self.going.items()):
            self._attend(slot, run)
        while self.todo:
            slot = self.todo.popleft()
            self._attend(slot, self.starter.start(slot))
        return self.done

    def _attend(self, slot: Slot, run: Run) -> None:
        self.going[slot] = run
        result = self.told.attend(run, self.starter.rooms[slot[0]])
        if result.status == "cancelled" and result.exit_code == 130:
            self.todo.appendleft(slot)
            del self.going[slot]
            raise KeyboardInterrupt
        self._ended(slot, result)

    def _pump(self, pool: ThreadPoolExecutor) -> None:
        """Take what has been submitted, and submit more."""
        for future in [future for future in self._starting if future.done()]:
            self._started(self._starting.pop(future), future)
        if time.monotonic() < self._silent_until:
            return
        while self.todo and len(self._starting) < SUBMITTERS and self._busy() < self.max_jobs:
            slot = self.todo.popleft()
            self._starting[pool.submit(self.starter.start, slot)] = slot

    def _busy(self) -> int:
        return len(self._starting) + len(self.going) + len(self.doubtful)

    def _started(self, slot: Slot, future: Future[Run]) -> None:
        try:
            self.going[slot] = future.result()
            self._refused, self._answered, self._silence_said = 0, True, False
        except Doubtful as error:
            self.doubtful[slot] = error.run
            self._silence(error)
        except Refused as error:
            self._refusal(slot, error)

    def _refusal(self, slot: Slot, error: Refused) -> None:
        if "MaxSubmit" in str(error) and self.going:  # the account's own bound: as many as are there now
            self.max_jobs = len(self.going)
            self.todo.appendleft(slot)
            self.told.note(f"the cluster takes no more than {self.max_jobs} jobs at once: {error}")
            return
        self._refused += 1
        self.told.note(f"{slot[0]}: {error}")
        if self._refused >= REFUSALS:
            raise InfraError(f"{self._refused} submissions in a row were refused, the last one because: {error}")
        self.done[slot] = error.result

    def _silence(self, error: LlmbxError) -> None:
        if not self._answered:
            raise InfraError(str(error))
        if not self._silence_said:
            self.told.note(f"{error}; waiting for it")
        self._silence_said = True
        self._silent_until = time.monotonic() + SILENCE_S

    def _doubts(self) -> None:
        """Find out, once the scheduler answers again, which doubtful runs have a job; the others are started anew."""
        if not self.doubtful or time.monotonic() < self._silent_until:
            return
        doubts = list(self.doubtful.items())
        try:
            found = recover([run for _, run in doubts], self.launcher)
        except Unreachable as error:
            self._silence(error)
            return
        self.doubtful.clear()
        self._silence_said = False
        for (slot, _), run in zip(doubts, found, strict=True):
            if run.record.job is not None:
                self.going[slot] = run
            else:
                conclude(run, self.plugins, JobStatus(state="lost", reason="the scheduler fell silent; started anew"))
                self.todo.appendleft(slot)

    def _look(self, pool: ThreadPoolExecutor) -> None:
        """Ask how all jobs stand, as often as the launcher allows."""
        if not self.going or time.monotonic() - self._looked < self.launcher.poll_s:
            return
        self.launcher.watch([run.record.job for run in self.going.values() if run.record.job])
        for slot, run in list(self.going.items()):
            assert run.record.job is not None
            try:
                status = self.launcher.status(run.record.job, run.path)
            except Unreachable as error:
                self._silence(error)
                break
            if status.state in ("pending", "running"):
                status = self._unless_stalled(run, status)
            if status.state not in ("pending", "running"):
                self._close(slot, run, status)
                self._pump(pool)
        self._looked = time.monotonic()

    def _close(self, slot: Slot, run: Run, status: JobStatus) -> None:
        """Take the result of a run that has ended, or go on with its next attempt."""
        try:
            after = close(run, self.starter.rooms[slot[0]], status, lambda text: self.told.note(f"{slot[0]}: {text}"))
        except LlmbxError as error:  # the next attempt could not be started; the result says so
            self.told.note(f"{slot[0]}: {error}")
            result = read_result(run.path)
            if result is None:
                raise
            after = result
        if isinstance(after, Result):
            self._ended(slot, after)
        else:
            self.going[slot] = after

    def _unless_stalled(self, run: Run, status: JobStatus) -> JobStatus:
        """The status; of a run whose log has been silent for too long, which is stopped here, that it has ended."""
        limit = run.record.spec.stall_timeout_s
        if not limit or status.state != "running" or _silent_s(run.log, status) < limit:
            return status
        assert run.record.job is not None
        self.launcher.dump_stacks(run.record.job, run.path)
        time.sleep(STACK_GRACE_S)
        self.launcher.cancel(run.record.job, run.path)
        reason = f"stalled: nothing was logged for {limit:g} s; the ranks' stacks are at the end of the log"
        return JobStatus(state="ended", reason=reason, verdict="stalled", started=status.started, ended=time.time())

    def _ended(self, slot: Slot, result: Result) -> None:
        self.going.pop(slot, None)
        self.done[slot] = result
        self.told.ended(slot, result, len(self.done), self._busy(), len(self.todo))


def _silent_s(log: Path, status: JobStatus) -> float:
    now = time.time()
    grown = log.stat().st_mtime if log.is_file() else 0.0
    return now - max(grown, status.started or now)
