"""A run is found by each of its names, from the folders alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.config.install import Install
from llmbx.errors import LlmbxError, UsageError
from llmbx.model import Job
from llmbx.record.folder import Attempt, Record, Run, write_record
from llmbx.record.names import complete, find_run
from llmbx.record.short_ids import FOLDER, derived
from llmbx.run_files import RunFolder

from ...run_factory import RunFactory, install, run_factory, spec

__all__ = ["install", "run_factory", "spec"]

HOUR = 3600


@pytest.fixture
def runs(run_factory: RunFactory) -> list[Run]:
    """Three runs of this user, an hour apart, the oldest first."""
    return [put(run_factory) for _ in range(3)]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose record is read during the test."""
    folders: list[Path] = []
    read_several = RunFolder.read_several

    def read(self: RunFolder, *names: str) -> tuple[int, list[bytes | OSError]]:
        folders.append(self.path)
        return read_several(self, *names)

    monkeypatch.setattr(RunFolder, "read_several", read)
    return folders


def put(factory: RunFactory, **record: object) -> Run:
    factory.made += HOUR
    return factory.put([0.1] * 20, record=record)


def link(run: Run, install: Install, name: str) -> None:
    """Reserve a short id for the run, as `claim` does."""
    (install.path / FOLDER).mkdir(exist_ok=True)
    (install.path / FOLDER / name).symlink_to(Path("..") / run.path.relative_to(install.path))


def put_with_id(factory: RunFactory, name: str, **record: object) -> Run:
    run = put(factory, id=name, **record)
    link(run, factory.install, name)
    return run


def test_a_run_is_found_by_its_ids_their_beginnings_and_its_folder(install: Install, runs: list[Run]) -> None:
    for run in runs:
        names = (run.record.id, run.record.id[:5], run.record.run_id, run.record.run_id[:-1], run.folder)
        assert [find_run(install, name) for name in names] == [run] * 5


def test_last_counts_from_the_newest_run(install: Install, runs: list[Run]) -> None:
    names = ("last", "last~0", "last~1", "last~2")
    assert [find_run(install, name) for name in names] == [runs[2], runs[2], runs[1], runs[0]]
    with pytest.raises(UsageError, match=r"no run 'last~3'; you have 3 runs in "):
        find_run(install, "last~3")


def test_last_goes_by_the_record_among_runs_of_a_few_seconds(run_factory: RunFactory) -> None:
    """Of two runs that begin in one second, the folder of the second is named after the next one."""
    first, second = (run_factory.put([0.1] * 20) for _ in range(2))
    record: Record = first.record.replace(created=second.record.created + 0.5)
    write_record(first.path, record)
    assert find_run(run_factory.install, "last").record.run_id == first.record.run_id


def test_a_run_is_found_by_its_job_and_by_that_of_an_earlier_attempt(run_factory: RunFactory) -> None:
    first, second, third = (Job(launcher="slurm", job_id=name, submitted=1.0) for name in ("4711", "4712", "4713"))
    put(run_factory, job=third)
    retried = put(run_factory, job=second, attempts=(Attempt(number=0, job=first, status="node_fail"),))
    put(run_factory)
    assert find_run(run_factory.install, "4711") == find_run(run_factory.install, "4712") == retried


def test_a_job_id_is_not_taken_for_the_beginning_of_a_short_id(run_factory: RunFactory) -> None:
    job = put(run_factory, job=Job(launcher="slurm", job_id="123", submitted=1.0))
    put_with_id(run_factory, "123x")
    assert find_run(run_factory.install, "123") == job


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("{run_id}x", r" \(did you mean '{run_id}'\?\)"),
        ("{end}", r" \(runs containing it: {run_id}; see `llmbx jobs`\)"),
        ("x", r" \(newest runs: \w+, \w+, \w+; see `llmbx jobs`\)"),
        ("a" * 300, " \\(newest runs: "),
    ],
)
def test_a_wrong_name_gets_a_hint(install: Install, runs: list[Run], name: str, hint: str) -> None:
    run_id = runs[0].record.run_id
    text = name.format(run_id=run_id, end=run_id[-9:])
    with pytest.raises(UsageError, match=f"no run '{text}'{hint.format(run_id=run_id)}"):
        find_run(install, text)


def test_an_empty_install_says_so(tmp_path: Path) -> None:
    for name in ("x", "last", ""):
        with pytest.raises(UsageError, match=f"no run '{name}'; .* has no runs"):
            find_run(Install(root=str(tmp_path), origin="test"), name)


def test_a_name_of_several_runs_is_refused(install: Install, runs: list[Run]) -> None:
    begun = runs[0].record.run_id.rpartition("_")[0]
    with pytest.raises(UsageError, match="matches 3 runs; be more specific: ") as error:
        find_run(install, begun)
    assert runs[2].record.id in str(error.value).split(", ")[0]


def test_runs_of_others_come_after_mine_and_are_never_the_last(run_factory: RunFactory) -> None:
    mine = put_with_id(run_factory, "7f3k")
    theirs = put(run_factory, user="somebody", id="7f3k")
    (run_factory.install.path / FOLDER / "7f3k").unlink()
    link(theirs, run_factory.install, "7f3k")
    assert find_run(run_factory.install, "7f3k").record.run_id == theirs.record.run_id
    assert find_run(run_factory.install, theirs.record.run_id) == theirs
    assert find_run(run_factory.install, "last") == mine
    assert find_run(run_factory.install, mine.record.run_id[:-5]) == mine


def test_a_stranger_cannot_take_the_id_of_my_run(run_factory: RunFactory) -> None:
    mine = put(run_factory)
    theirs = put(run_factory, user="somebody", id=mine.record.id)
    link(theirs, run_factory.install, mine.record.id)
    assert find_run(run_factory.install, mine.record.id) == mine


def test_an_install_with_runs_of_others_only_has_no_last(run_factory: RunFactory) -> None:
    put(run_factory, user="somebody")
    message = r"no run 'last'; no run in .* is yours \(the newest of others: \w+\), see `llmbx jobs --user all`"
    with pytest.raises(UsageError, match=message):
        find_run(run_factory.install, "last")


def test_a_link_whose_run_is_gone_and_one_of_another_id_lead_nowhere(run_factory: RunFactory, runs: list[Run]) -> None:
    link(runs[0].replace(folder=runs[0].folder + "x"), run_factory.install, "gone")
    link(runs[0], run_factory.install, "wrong")
    for name in ("gone", "wrong"):
        with pytest.raises(UsageError, match=f"no run '{name}'"):
            find_run(run_factory.install, name)


@pytest.mark.parametrize(("version", "reason"), [(2, "2 of an older llmbx, expected 3"), (4, "4 of a newer llmbx")])
def test_a_record_of_another_version_says_why_it_cannot_be_read(
    install: Install, runs: list[Run], version: int, reason: str
) -> None:
    write_record(runs[2].path, runs[2].record.replace(schema_version=version))
    for name in ("last", runs[2].record.id):
        with pytest.raises(LlmbxError, match=rf"run\.json: not a record .*: it has schema version {reason}"):
            find_run(install, name)


def test_folders_without_a_readable_record_are_no_runs(install: Install, runs: list[Run]) -> None:
    (runs[2].path / "run.json").write_text("{")
    (runs[1].path / "run.json").unlink()
    assert find_run(install, "last") == runs[0]


def test_the_last_folder_may_have_another_name(install: Install, runs: list[Run]) -> None:
    runs[2].path.rename(runs[2].path.with_name("renamed"))
    for name in ("last", runs[2].record.id):
        assert find_run(install, name).record == runs[2].record


def test_few_records_are_read_and_no_index_is_made(
    install: Install, runs: list[Run], reads: list[Path], cache_home: Path
) -> None:
    run = runs[2]
    for name in ("last", run.record.id, run.record.id[:6], run.record.run_id, run.record.run_id[:-1]):
        reads.clear()
        find_run(install, name)
        assert set(reads) == {run.path}
    assert not cache_home.exists()


def test_ids_are_completed_newest_first(install: Install, runs: list[Run]) -> None:
    names = [run.record.id for run in reversed(runs)]
    assert [name for name, _ in complete(install, "")] == names
    assert complete(install, "", limit=1) == complete(install, names[0][:5])
    assert complete(install, names[0])[0][1].startswith("line 1b, completed, 20")
    assert complete(install, "a'b") == []
    assert derived(runs[0].record.run_id) == names[2]
