"""Run a sweep: submit its runs up to the limit of jobs, poll them, and write their results."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol

from llmbx.api import InfraError, JobStatus, LlmbxError, Result, Unreachable
from llmbx.api.verbs import Run, Runner

from .start import Starter, SubmissionRejected, SubmissionUnknown
from .state import Slot, SweepState, is_final

SUBMITTERS = 4
"""Number of concurrent submissions. Most of the time of sbatch is spent waiting for the controller."""

LOOP_S = 0.05
"""Pause between two iterations of the main loop, in seconds."""

BACKOFF_S = 5.0
"""Seconds to wait before a scheduler that did not answer is queried again."""

MAX_REJECTIONS = 3
"""The sweep is stopped after this many rejected submissions in a row."""


class Listener(Protocol):
    """Receives the progress of a sweep."""

    def ended(self, slot: Slot, result: Result, ended: int, running: int, waiting: int) -> None:
        """Called when a run has ended, with the numbers of ended, submitted or running, and waiting runs."""

    def note(self, text: str) -> None:
        """Called with a message for the user."""

    def attend(self, run: Run, runner: Runner) -> Result:
        """Follow a run of an attended launcher to its end and return its result."""


class Driver:
    """Runs one sweep. `done`, `running` and `pending` are its state, also after an interruption.

    A run of the state that ended with, or after, the process that started it is run again at once unless its result is
    final (`is_final`, with `retry_failed`). If the scheduler stops answering, the driver waits for it. If it has not
    answered yet, the driver only waits if `patient`, else it raises `InfraError`.
    """

    def __init__(
        self,
        starter: Starter,
        state: SweepState,
        runner: Runner,
        listener: Listener,
        max_jobs: int,
        patient: bool = False,
        retry_failed: bool = False,
    ) -> None:
        self.starter = starter
        self.runner = runner
        self.launcher = runner.launcher
        self.listener = listener
        self.max_jobs = max_jobs
        self.done: dict[Slot, Result] = dict(state.done)
        self.running: dict[Slot, Run] = dict(state.running)
        self.pending: deque[Slot] = deque(state.missing)
        self.unknown: dict[Slot, Run] = {}
        self.retry_failed = retry_failed
        self._left = set(state.running)
        self._starting: dict[Future[Run], Slot] = {}
        self._wait_until = 0.0
        self._outage_noted = False
        self._answered = patient
        self._polled = 0.0
        self._grown: dict[str, tuple[int, float]] = {}
        self._rejections = 0

    def run(self) -> dict[Slot, Result]:
        """Run the sweep to its end and return the result of every slot.

        Raises `InfraError` if the scheduler rejects all runs or never answers. On Ctrl-C, `KeyboardInterrupt` is raised
        after the submissions in progress have their job ids.
        """
        for slot, run in self.running.items():
            self.running[slot] = self.runner.take_over(run) or run
        if self.launcher.attended:
            return self._run_attended()
        try:
            with ThreadPoolExecutor(SUBMITTERS) as pool:
                while self.pending or self._starting or self.running or self.unknown:
                    self._iterate(pool)
        finally:
            for future, slot in self._starting.items():
                if not future.cancelled() and future.exception() is None:
                    self.running[slot] = future.result()
        return self.done

    def _iterate(self, pool: ThreadPoolExecutor) -> None:
        self._submit(pool)
        self._recover_unknown()
        self._poll(pool)
        if self._starting:
            wait(self._starting, timeout=LOOP_S, return_when=FIRST_COMPLETED)
        else:
            time.sleep(LOOP_S)

    def _run_attended(self) -> dict[Slot, Result]:
        """Run the slots one after the other, for launchers whose runs must be followed by this process."""
        for slot, run in list(self.running.items()):
            self._attend(slot, run)
        while self.pending:
            slot = self.pending.popleft()
            self._attend(slot, self.starter.start(slot))
        return self.done

    def _attend(self, slot: Slot, run: Run) -> None:
        self.running[slot] = run
        result = self.listener.attend(run, self.starter.runners[slot[0]])
        if result.status == "cancelled" and result.exit_code == 130:
            self.pending.appendleft(slot)
            del self.running[slot]
            raise KeyboardInterrupt
        self._ended(slot, result)

    def _submit(self, pool: ThreadPoolExecutor) -> None:
        """Collect the finished submissions and start new ones."""
        for future in [future for future in self._starting if future.done()]:
            self._started(self._starting.pop(future), future)
        if time.monotonic() < self._wait_until:
            return
        while self.pending and len(self._starting) < SUBMITTERS and self._active() < self.max_jobs:
            slot = self.pending.popleft()
            self._starting[pool.submit(self.starter.start, slot)] = slot

    def _active(self) -> int:
        """Number of jobs that are, or may be, in the queue."""
        return len(self._starting) + len(self.running) + len(self.unknown)

    def _started(self, slot: Slot, future: Future[Run]) -> None:
        try:
            self.running[slot] = future.result()
            self._rejections, self._answered, self._outage_noted = 0, True, False
        except SubmissionUnknown as error:
            self.unknown[slot] = error.run
            self._back_off(error)
        except SubmissionRejected as error:
            self._rejected(slot, error)

    def _rejected(self, slot: Slot, error: SubmissionRejected) -> None:
        if "MaxSubmit" in str(error) and self.running:  # the job limit of the account: the current number of jobs
            self.max_jobs = len(self.running)
            self.pending.appendleft(slot)
            self.listener.note(f"reached the job limit of the cluster, --max-jobs is now {self.max_jobs}: {error}")
            return
        self._rejections += 1
        self.listener.note(f"{slot[0]}: {error}")
        if self._rejections >= MAX_REJECTIONS:
            raise InfraError(f"{self._rejections} submissions in a row were rejected: {error}")
        self.done[slot] = error.result

    def _back_off(self, error: LlmbxError) -> None:
        if not self._answered:
            raise InfraError(str(error))
        if not self._outage_noted:
            self.listener.note(f"{error}; waiting for it")
        self._outage_noted = True
        self._wait_until = time.monotonic() + BACKOFF_S

    def _recover_unknown(self) -> None:
        """Find the jobs of runs whose submission got no answer. Slots of runs without a job are submitted again."""
        if not self.unknown or time.monotonic() < self._wait_until:
            return
        unknown = list(self.unknown.items())
        try:
            recovered = self.runner.recover([run for _, run in unknown])
        except Unreachable as error:
            self._back_off(error)
            return
        self.unknown.clear()
        self._outage_noted = False
        for (slot, _), run in zip(unknown, recovered, strict=True):
            if run.record.job is not None:
                self.running[slot] = run
            else:
                reason = "the scheduler stopped answering; submitted again"
                self.runner.conclude(run, JobStatus(state="lost", reason=reason))
                self.pending.appendleft(slot)

    def _poll(self, pool: ThreadPoolExecutor) -> None:
        """Query the status of all jobs, at most every `poll_s` seconds of the launcher."""
        if not self.running or time.monotonic() - self._polled < self.launcher.poll_s:
            return
        self.launcher.watch([run.record.job for run in self.running.values() if run.record.job])
        for slot, run in list(self.running.items()):
            assert run.record.job is not None
            try:
                status = self.launcher.status(run.record.job, run.path)
            except Unreachable as error:
                self._back_off(error)
                break
            if status.state in ("pending", "running"):
                self._left.discard(slot)
                status = self.runner.give_up(run, status) or self._cancel_if_stalled(run, status)
            if status.state not in ("pending", "running"):
                self._close(slot, run, status)
                self._submit(pool)
        self._polled = time.monotonic()

    def _close(self, slot: Slot, run: Run, status: JobStatus) -> None:
        """Record the result of a run that has ended, or its next attempt if it is retried."""
        try:
            runner = self.starter.runners[slot[0]]
            outcome = runner.close(run, status, lambda text: self.listener.note(f"{slot[0]}: {text}"))
        except LlmbxError as error:  # the next attempt could not be started; the result has the reason
            self.listener.note(f"{slot[0]}: {error}")
            result = run.read_result()
            if result is None:
                raise
            outcome = result
        if isinstance(outcome, Result):
            self._ended(slot, outcome)
        else:
            self.running[slot] = outcome

    def _cancel_if_stalled(self, run: Run, status: JobStatus) -> JobStatus:
        """Cancel the run if its log has not grown for the stall timeout. Returns the resulting status."""
        limit = run.record.spec.stall_timeout_s
        if not limit or status.state != "running" or self._silent_s(run) < limit:
            return status
        assert run.record.job is not None
        self.runner.dump_stacks(run)
        self.launcher.cancel(run.record.job, run.path)
        reason = f"stalled: no log output for {limit:g} s; the stacks of the ranks are at the end of the log"
        return JobStatus(state="ended", reason=reason, verdict="stalled", started=status.started, ended=time.time())

    def _silent_s(self, run: Run) -> float:
        """Seconds since this process saw the run's log grow, or first saw the run."""
        status, now = run.log_file.status(), time.monotonic()
        size = status.st_size if status else 0
        last_growth = self._grown.get(run.folder)
        if last_growth is None or last_growth[0] != size:
            last_growth = self._grown[run.folder] = (size, now)
        return now - last_growth[1]

    def _ended(self, slot: Slot, result: Result) -> None:
        self.running.pop(slot, None)
        if slot in self._left and not is_final(result, self.launcher, self.retry_failed):
            self._left.discard(slot)
            self.listener.note(f"{slot[0]} #{slot[1]}: {result.status}: {result.cause}; it is run again")
            self.starter.prepare([slot[0]], self.listener.note)
            self.pending.appendleft(slot)
            return
        self.done[slot] = result
        self.listener.ended(slot, result, len(self.done), self._active(), len(self.pending))
