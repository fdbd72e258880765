"""Start the runs of a sweep. Images are prepared once and shared by all runs."""

from __future__ import annotations

import os
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
    forget_secrets,
)
from llmbx.api.verbs import (
    Run,
    RunContext,
    SweepMark,
    claim_folder,
    conclude_unstarted,
    fetch_image,
    new_record,
    render_launch,
)

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

    def __init__(self, sweep: Sweep, rooms: Mapping[str, RunContext], offline: bool = False) -> None:
        self.sweep = sweep
        self.offline = offline
        self.rooms = rooms
        self.specs = {cell.key: cell.spec for cell in sweep.cells}
        self._images: dict[str, Image] = {}
        self._stamps: dict[str, int] = {}
        self._lock = threading.Lock()

    def prepare(self, keys: list[str], progress: Progress) -> None:
        """Fetch the images of these cells before the first run is started, so that missing access shows up early."""
        known: list[tuple[object, Image]] = []
        for key in dict.fromkeys(key for key in keys if key not in self._images):
            spec, rooms = self.specs[key], self.rooms[key]
            rooms.framework.parse_log(spec)
            request = rooms.wanted_image(spec)
            image = next((image for other, image in known if other == (spec.runtime, request)), None)
            if image is None:
                image = fetch_image(request, rooms, progress, self.offline)
                known.append(((spec.runtime, request), image))
            self._images[key] = image
        if any(spec.profile and not spec.profile.keep_secrets for spec in (self.specs[key] for key in keys)):
            forget_secrets(os.environ)

    def start(self, slot: Slot) -> Run:
        """Start one run.

        Raises `SubmissionUnknown` if the scheduler does not answer, `SubmissionRejected` if it rejects the job. The
        folder of a rejected run is kept, with a failed result.
        """
        key, repeat = slot
        spec, rooms = self.specs[key], self.rooms[key]
        run_id, short_id, folder = claim_folder(rooms.install, spec, now=lambda: self._stamp(spec.experiment))
        self._remember_stamp(spec, run_id)
        mark = SweepMark(sweep_id=self.sweep.sweep_id, cell=key, repeat=repeat)
        rendered = render_launch(spec, rooms, self._images[key], folder)
        record = new_record(
            run_id, spec, id=short_id, command=self.sweep.command, group=f"{self.sweep.sweep_id} {key}", sweep=mark,
            **rendered.recorded, image=self._images[key], versions=self._images[key].versions, prepare_s=0.0,
        )  # fmt: skip
        record.write(folder, durable=False)
        rendered.write(folder)
        try:
            job = rooms.launcher.submit(folder / "run.sh", spec, folder)
        except Unreachable as error:
            raise SubmissionUnknown(Run(folder=str(folder), record=record), error) from error
        except LlmbxError as error:
            result = conclude_unstarted(Run(folder=str(folder), record=record), rooms.plugins, error)
            raise SubmissionRejected(result, error) from error
        record = record.replace(job=job)
        record.write(folder)
        return Run(folder=str(folder), record=record)

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
