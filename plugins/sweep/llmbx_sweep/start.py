"""Start the runs of a sweep. Images are prepared once and shared by all runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from llmbx.api import (
    Image,
    InfraError,
    LlmbxError,
    Progress,
    Result,
    RunSpec,
    Unreachable,
    UsageError,
)
from llmbx.api.verbs import Run, Runner, SweepMark

from .state import Slot
from .store import Sweep


class SubmissionUnknown(LlmbxError):
    """The scheduler stopped answering while `run` was being submitted, so it is unknown whether there is a job."""

    exit_code = 4

    def __init__(self, run: Run, why: Unreachable) -> None:
        super().__init__(str(why))
        self.run = run


class SubmissionRejected(InfraError):
    """The scheduler rejected the run; `result` is the failed result that was written."""

    def __init__(self, result: Result, why: LlmbxError) -> None:
        super().__init__(str(why))
        self.result = result


class Starter:
    """Starts the runs of one sweep. `start` may be called from several threads."""

    def __init__(self, sweep: Sweep, runners: Mapping[str, Runner], offline: bool = False) -> None:
        self.sweep = sweep
        self.offline = offline
        self.runners = runners
        self.specs = {cell.key: cell.spec for cell in sweep.cells}
        self._images: dict[str, Image] = {}
        self._stamps: dict[str, int] = {}
        self._lock = threading.Lock()

    def prepare(self, keys: list[str], progress: Progress) -> None:
        """Fetch the images of these cells before the first run is started, so that missing access shows up early."""
        fetched: list[tuple[object, Image]] = []
        for key in dict.fromkeys(key for key in keys if key not in self._images):
            spec, runner = self.specs[key], self.runners[key]
            runner.framework.parse_log(spec)
            request = runner.wanted_image(spec)
            image = next((image for made_for, image in fetched if made_for == (spec.runtime, request)), None)
            if image is None:
                image = runner.fetch_image(request, progress, self.offline)
                fetched.append(((spec.runtime, request), image))
            self._images[key] = image
        for key in keys:
            self.runners[key].forget_secrets(self.specs[key])

    def start(self, slot: Slot) -> Run:
        """Start one run.

        Raises `SubmissionUnknown` if the scheduler does not answer, `SubmissionRejected` if it rejects the job. The
        folder of a rejected run is kept, with a failed result.
        """
        key, repeat = slot
        spec, runner = self.specs[key], self.runners[key]
        mark = SweepMark(sweep_id=self.sweep.sweep_id, cell=key, repeat=repeat)
        run = runner.claim(
            spec, lambda: self._stamp(spec.experiment), command=self.sweep.command,
            group=f"{self.sweep.sweep_id} {key}", sweep=mark,
        )  # fmt: skip
        self._remember_stamp(spec, run.record.run_id)
        run = runner.write_files(run, self._images[key], self.offline)
        try:
            return runner.submit(run, self.offline)
        except Unreachable as error:
            raise SubmissionUnknown(run, error) from error
        except LlmbxError as error:
            raise SubmissionRejected(runner.conclude_unstarted(run, error), error) from error

    def _stamp(self, experiment: str) -> float:
        """The time for the next run id: now, or one second after the last one of this experiment.

        Run ids have a resolution of one second, and many runs of an experiment start within the same second.
        """
        with self._lock:
            return max(time.time(), self._stamps.get(experiment, 0) + 1)

    def _remember_stamp(self, spec: RunSpec, run_id: str) -> None:
        stamp = run_id.rpartition("_")[2]
        if not stamp.isdigit():
            raise UsageError(f"{run_id}: expected a run id that ends with its start time")
        with self._lock:
            self._stamps[spec.experiment] = max(int(stamp), self._stamps.get(spec.experiment, 0))
