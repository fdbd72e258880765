"""Starting one run of a sweep as cheaply as it can be: what is the same for many is made once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping

from llmbx.errors import InfraError, LlmbxError, UsageError
from llmbx.launchers.base import Unreachable
from llmbx.launchers.script import SCRIPT
from llmbx.model import Image, Result, RunSpec
from llmbx.record.folder import Run, SweepMark, claim_folder, new_record, write_record
from llmbx.run.context import RunContext
from llmbx.run.launch import render, write_files
from llmbx.run.pipeline import conclude_unstarted, fetch_image, wanted_image
from llmbx.runtimes.base import Progress
from llmbx.secrets import forget

from .census import Slot
from .store import Sweep


class Doubtful(LlmbxError):
    """The scheduler fell silent while the run was being submitted: nobody knows whether there is a job."""

    exit_code = 4

    def __init__(self, run: Run, why: Unreachable) -> None:
        super().__init__(str(why))
        self.run = run


class Refused(InfraError):
    """The scheduler did not take the run; `result` says so."""

    def __init__(self, result: Result, why: LlmbxError) -> None:
        super().__init__(str(why))
        self.result = result


class Starter:
    """Starts runs of one sweep, from several threads at once."""

    def __init__(self, sweep: Sweep, rooms: Mapping[str, RunContext]) -> None:
        self.sweep = sweep
        self.rooms = rooms
        self.specs = {cell.key: cell.spec for cell in sweep.cells}
        self._images: dict[str, Image] = {}
        self._stamps: dict[str, int] = {}
        self._lock = threading.Lock()

    def prepare(self, keys: list[str], progress: Progress, offline: bool) -> None:
        """Fetch every image and prove every access before the first run is started."""
        known: list[tuple[object, Image]] = []
        for key in dict.fromkeys(keys):
            spec, rooms = self.specs[key], self.rooms[key]
            rooms.framework.parse_log(spec)
            request = wanted_image(spec, rooms)
            same = next((image for other, image in known if other == (spec.runtime, request)), None)
            if same is None:
                same = fetch_image(request, rooms, progress, offline)
                known.append(((spec.runtime, request), same))
            self._images[key] = same
        if any(spec.profile and not spec.profile.keep_secrets for spec in (self.specs[key] for key in keys)):
            forget(os.environ)

    def start(self, slot: Slot) -> Run:
        """Start one run. Raises `Doubtful` when the scheduler falls silent, `Refused` when it refuses.

        A refused run keeps its folder with a truthful result.
        """
        key, repeat = slot
        spec, rooms = self.specs[key], self.rooms[key]
        run_id, folder = claim_folder(rooms.install, spec, now=lambda: self._stamp(spec.experiment))
        self._claimed(spec, run_id)
        mark = SweepMark(sweep_id=self.sweep.sweep_id, cell=key, repeat=repeat)
        rendered = render(spec, rooms, self._images[key], folder)
        record = new_record(
            run_id, spec, command=self.sweep.command, group=f"{self.sweep.sweep_id} {key}", sweep=mark,
            commands={phase.role: phase.argv for phase in rendered.launch.phases},
            image=self._images[key], versions=self._images[key].versions, prepare_s=0.0,
        )  # fmt: skip
        write_record(folder, record, durable=False)
        write_files(folder, rendered)
        try:
            job = rooms.launcher.submit(folder / SCRIPT, spec, folder)
        except Unreachable as error:
            raise Doubtful(Run(folder=str(folder), record=record), error) from error
        except LlmbxError as error:
            result = conclude_unstarted(Run(folder=str(folder), record=record), rooms.plugins, error)
            raise Refused(result, error) from error
        record = record.replace(job=job)
        write_record(folder, record)
        return Run(folder=str(folder), record=record)

    def _stamp(self, experiment: str) -> float:
        """Now, or right after the last stamp of this experiment: hundreds of equal runs start within one second."""
        with self._lock:
            return max(time.time(), self._stamps.get(experiment, 0) + 1)

    def _claimed(self, spec: RunSpec, run_id: str) -> None:
        stamp = run_id.rpartition("_")[2]
        if not stamp.isdigit():
            raise UsageError(f"{run_id}: a run's id ends with its time")
        with self._lock:
            self._stamps[spec.experiment] = max(int(stamp), self._stamps.get(spec.experiment, 0))
