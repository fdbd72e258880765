"""The state of a sweep is read from the run folders; interrupted submissions are recovered or given up."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from llmbx.config.install import Install
from llmbx.errors import InfraError, UsageError
from llmbx.model import Job, Result, RunSpec
from llmbx.model.run_folder import GIVEN_UP
from llmbx.record.folder import Attempt, Run, SweepMark, claim_folder, new_record, read_run, write_record, write_result
from llmbx.run.pipeline import Runner
from llmbx.run_files import RunFolder
from llmbx_sweep import store
from llmbx_sweep.cells import Cell
from llmbx_sweep.state import SweepState, read_state, results, slots

from .conftest import made_result


class FakeScheduler:
    """Finds jobs by folder. The jobs in `late` are only found by the second query."""

    attended = False

    def __init__(self) -> None:
        self.jobs: dict[Path, str] = {}
        self.late: dict[Path, str] = {}
        self.cancelled: list[str] = []

    def find(self, runs: Mapping[Path, RunSpec]) -> dict[Path, Job]:
        found = {run: Job(launcher="slurm", job_id=job, submitted=0) for run, job in self.jobs.items() if run in runs}
        self.jobs.update(self.late)
        return found

    def cancel(self, job: Job, run_dir: Path) -> None:
        self.cancelled.append(job.job_id)


class Sandbox:
    """A sweep in an install. `run` adds a run in any state."""

    def __init__(self, root: Path, cells: tuple[Cell, ...]) -> None:
        self.install = Install(root=str(root), origin="test")
        self.sweep = store.create(self.install, "line", ("sweep",), cells, 10)
        self.scheduler: Any = FakeScheduler()

    def run(
        self, repeat: int, job: str | None = None, result: Result | None = None, cell: int = 0, of: str = ""
    ) -> Run:
        chosen = self.sweep.cells[cell]
        run_id, _, folder = claim_folder(self.install, chosen.spec)
        mark = SweepMark(sweep_id=of or self.sweep.sweep_id, cell=chosen.key, repeat=repeat)
        record = new_record(run_id, id="x1", spec=chosen.spec, command=(), sweep=mark).replace(
            job=Job(launcher="slurm", job_id=job, submitted=0) if job else None
        )
        write_record(folder, record)
        if result:
            write_result(folder, result.replace(run_id=run_id))
        return Run(folder=str(folder), record=record)

    def read(self, retry_failed: bool = False) -> SweepState:
        nothing: Any = None
        runner = Runner(nothing, nothing, nothing, self.scheduler, self.install)
        return read_state(self.sweep, runner, retry_failed)


@pytest.fixture
def box(tmp_path: Path, make_cell: Callable[..., Cell]) -> Sandbox:
    return Sandbox(tmp_path, (make_cell(repeats=3), make_cell(gpus=4, repeats=1)))


FAILED = made_result(status="failed", data_valid=False)
CANCELLED = made_result(status="cancelled", data_valid=False)


def test_the_first_repeats_of_all_cells_come_first(box: Sandbox) -> None:
    first, second = (cell.key for cell in box.sweep.cells)
    assert slots(box.sweep) == [(first, 1), (second, 1), (first, 2), (first, 3)]
    assert box.read().missing == tuple(slots(box.sweep))


def test_each_slot_is_done_running_or_missing(box: Sandbox) -> None:
    first, second = (cell.key for cell in box.sweep.cells)
    box.run(1, "10", made_result())
    box.run(2, "11")
    box.run(3, None, FAILED)  # never submitted
    box.run(1, "12", CANCELLED, cell=1)
    box.run(2, "13", made_result(), of="another_1")
    state = box.read()
    assert list(state.done) == [(first, 1)] and list(state.running) == [(first, 2)]
    assert state.missing == ((second, 1), (first, 3))
    assert set(results(box.install, box.sweep)) == {(first, 1), (first, 3), (second, 1)}


def test_failed_slots_are_missing_only_with_retry_failed(box: Sandbox) -> None:
    first = box.sweep.cells[0].key
    box.run(1, "10", FAILED)
    box.run(2, "11", FAILED)
    box.run(2, "12", made_result())
    assert {slot: result.status for slot, result in box.read().done.items()} == {
        (first, 1): "failed", (first, 2): "completed",
    }  # fmt: skip
    assert (first, 1) in box.read(retry_failed=True).missing
    assert (first, 2) not in box.read(retry_failed=True).missing


@pytest.mark.parametrize("attended", [True, False])
def test_a_lost_run_is_missing_if_it_ends_with_its_llmbx(box: Sandbox, attended: bool) -> None:
    box.scheduler.attended = attended
    box.run(1, "10", made_result(status="lost", data_valid=False))
    assert ((box.sweep.cells[0].key, 1) in box.read().missing) is attended


def test_a_run_in_a_strangers_folder_is_no_run_of_the_sweep(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone may write the id of the sweep into a record of their own."""
    mine, strangers = box.run(1, "10", made_result()), box.run(2, "11", made_result())
    owner_of = RunFolder.owner_id.fget
    assert owner_of is not None
    other = property(lambda place: 12345 if place.path == strangers.path else owner_of(place))
    monkeypatch.setattr(RunFolder, "owner_id", other)
    key = box.sweep.cells[0].key
    assert {*box.read().done} == {(key, 1)} and (key, 2) in box.read().missing
    assert {slot: result.run_id for slot, result in results(box.install, box.sweep).items()} == {
        (key, 1): mine.record.run_id
    }


def test_a_run_killed_between_submission_and_recording_is_recovered(box: Sandbox) -> None:
    run = box.run(1)
    box.scheduler.jobs[run.path] = "42"
    state = box.read()
    assert state.running[(box.sweep.cells[0].key, 1)].record.job.job_id == "42"
    assert read_run(run.path).record.job == state.running[(box.sweep.cells[0].key, 1)].record.job
    assert not (run.path / GIVEN_UP).exists() and not box.scheduler.cancelled


def test_a_run_without_a_job_is_given_up_and_its_slot_is_missing(box: Sandbox) -> None:
    run, late = box.run(1), box.run(2)
    box.scheduler.late[late.path] = "43"
    state = box.read()
    assert {(box.sweep.cells[0].key, 1), (box.sweep.cells[0].key, 2)} <= set(state.missing)
    assert (run.path / GIVEN_UP).exists() and (late.path / GIVEN_UP).exists()
    assert box.scheduler.cancelled == ["43"]
    assert set(box.read().missing) == set(state.missing)  # still given up, although its job is known now
    assert box.scheduler.cancelled == ["43"]


def test_the_job_of_an_earlier_attempt_is_not_used_for_the_next_one(box: Sandbox) -> None:
    run = box.run(1)
    earlier = Attempt(number=0, status="node_fail", job=Job(launcher="slurm", job_id="42", submitted=0))
    write_record(run.path, run.record.replace(attempt=1, attempts=(earlier,)))
    box.scheduler.jobs[run.path] = "42"  # found by the same folder
    assert (box.sweep.cells[0].key, 1) in box.read().missing
    assert (run.path / GIVEN_UP).exists() and box.scheduler.cancelled == []


def test_sweeps_are_found_by_id_prefix_and_age(box: Sandbox) -> None:
    other = store.create(box.install, "My Plan!", (), box.sweep.cells, 5)
    assert other.sweep_id.startswith("My-Plan_")
    assert store.find(box.install, "line") == box.sweep == store.find(box.install, box.sweep.sweep_id)
    again = store.create(box.install, "line", (), box.sweep.cells, 5)
    assert again.sweep_id != box.sweep.sweep_id and store.find(box.install, "last") == again
    with pytest.raises(UsageError, match="'line' matches 2 sweeps"):
        store.find(box.install, "line")
    with pytest.raises(UsageError, match="did you mean 'My-Plan_"):
        store.find(box.install, other.sweep_id + "1")


def test_a_sweep_is_locked_by_one_process(box: Sandbox) -> None:
    with (
        RunFolder(path=store.folder(box.install, box.sweep)).driven(),
        pytest.raises(InfraError, match="is already being run by process"),
        RunFolder(path=store.folder(box.install, box.sweep)).driven(),
    ):
        pass
    with RunFolder(path=store.folder(box.install, box.sweep)).driven():
        pass


def test_a_read_only_disk_is_a_one_line_error(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("filelock.SoftFileLease.acquire", refused)
    with (
        pytest.raises(InfraError, match=r"\.driver could not be written: Read-only file system"),
        RunFolder(path=store.folder(box.install, box.sweep)).driven(),
    ):
        pass
