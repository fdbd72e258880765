"""Real nsys around real processes: exactly the asked steps, no secret, nothing silent; and its reports read."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner

from llmbx.model import ProfileSpec, RunSpec
from llmbx_profiling.cli import command
from llmbx_profiling.collect import SECRETS_SUFFIX
from llmbx_profiling.post_run import findings
from llmbx_profiling.pre_run import obstacle

from ...patience import PATIENCE_S
from .conftest import files_below, with_failing_importer, without_importer

Profiled = Callable[..., Path]


@pytest.fixture(autouse=True)
def here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' nsys is the machine's, and a token is exported, as for a user.

    Each test has tokens of its own: a report holds the environment of every process on the machine, and on a busy one
    the agents of an earlier test's nsys may still be ending.
    """
    nsys = request.getfixturevalue("nsys" if "nsys" in request.fixturenames else "one_nsys")
    monkeypatch.setenv("LLMBX_NSYS", str(nsys))
    monkeypatch.setenv("HF_TOKEN", f"hf_planted_token_{uuid4().hex}")
    monkeypatch.setenv("MY_API_KEY", f"an-api-key-{uuid4().hex}")


def exported(nsys: Path, report: Path, folder: Path) -> sqlite3.Connection:
    """The report in nsys's own words, without anything of llmbx."""
    target = folder / f"{report.stem}.sqlite"
    argv = [nsys, "export", "--type=sqlite", f"--output={target}", report]
    subprocess.run(argv, check=True, capture_output=True)
    return sqlite3.connect(target)


def steps_in(connection: sqlite3.Connection) -> list[int]:
    rows = connection.execute(
        "SELECT int64Value FROM NVTX_EVENTS WHERE eventType = 59 AND end IS NOT NULL "
        "AND coalesce(text, (SELECT value FROM StringIds WHERE id = textId)) = 'step' ORDER BY start"
    )
    return [number for (number,) in rows]


def steps_of_rank_0(nsys: Path, folder: Path, exports: Path) -> list[int]:
    with exported(nsys, folder / "nsys_profile" / "line-mini_local_0_0.nsys-rep", exports) as connection:
        return steps_in(connection)


def test_a_profile_holds_the_asked_steps_and_no_others(nsys: Path, profiled: Profiled, tmp_path: Path) -> None:
    folder = profiled(nsys)
    (report,) = (folder / "nsys_profile").glob("*.nsys-rep")
    with exported(nsys, report, tmp_path) as connection:
        assert steps_in(connection) == [45, 46, 47, 48, 49]
    assert findings(folder) == []
    analysis = json.loads((folder / "nsys_profile" / "analysis.json").read_text())
    assert [(step["rank"], step["step"]) for step in analysis["steps"]] == [(0, step) for step in range(45, 50)]
    assert all(0.012 <= step["duration_s"] < 0.5 and step["busy_s"] is None for step in analysis["steps"])
    ranges = {(item["domain"], item["text"]): item for item in analysis["ranges"]}
    assert ranges[("llmbx", "step")]["calls"] == ranges[(None, "forward")]["calls"] == 5
    assert ranges[(None, "backward")]["min_s"] >= 0.008


def test_every_rank_leaves_a_file_of_its_own(one_nsys: Path, profiled: Profiled, tmp_path: Path) -> None:
    folder = profiled(one_nsys, ranks=2)
    reports = sorted((folder / "nsys_profile").glob("*.nsys-rep"))
    assert [report.name for report in reports] == ["line-mini_local_0_0.nsys-rep", "line-mini_local_0_1.nsys-rep"]
    for report in reports:
        with exported(one_nsys, report, tmp_path) as connection:
            assert steps_in(connection) == [45, 46, 47, 48, 49]
    assert findings(folder) == []


def everything_in(nsys: Path, report: Path, folder: Path) -> bytes:
    """All that nsys can tell of a report (which is compressed), in its wordiest forms."""
    for kind in ("json", "sqlite", "text"):
        argv = [nsys, "export", f"--type={kind}", f"--output={folder / f'everything.{kind}'}", report]
        subprocess.run(argv, check=True, capture_output=True)
    return b"".join(path.read_bytes() for path in folder.glob("everything.*"))


def test_a_planted_token_is_not_in_the_profile(nsys: Path, profiled: Profiled, tmp_path: Path) -> None:
    folder = profiled(nsys, PLAIN="in-the-environment")
    report = folder / "nsys_profile" / "line-mini_local_0_0.nsys-rep"
    told = everything_in(nsys, report, tmp_path)
    assert b"in-the-environment" in told, "a report does hold the environment"
    planted = [os.environ[name].encode() for name in ("HF_TOKEN", "MY_API_KEY")]
    assert not any(value in told for value in planted)
    assert not any(value in path.read_bytes() for path in files_below(folder) if path.is_file() for value in planted)


def test_a_token_that_is_kept_is_in_the_profile_and_that_is_said(one_nsys: Path, profiled: Profiled) -> None:
    folder = profiled(one_nsys, keep_secrets=True, SAY_IT="1")
    (finding,) = findings(folder)
    assert (finding.rule, finding.warning) == ("profile_secret", True)
    assert (folder / "nsys_profile" / f"line-mini_local_0_0.nsys-rep{SECRETS_SUFFIX}").is_file()


def test_the_programs_exit_code_passes(one_nsys: Path, profiled: Profiled) -> None:
    folder = profiled(one_nsys, code=7, CODE="7")
    assert [path.suffix for path in files_below(folder)].count(".nsys-rep") == 1


def test_a_program_goes_on_without_an_nsys_that_loses_its_agent(one_nsys: Path, profiled: Profiled) -> None:
    """nsys itself ends at once, with exit code 0."""

    def kill_the_agent(folder: Path) -> None:
        """Kill the agent of the nsys that runs in `folder`, once the program has started, and let the program go on."""
        await_line(folder / "rank-0.log", "program waits")
        (nsys,) = (pid for pid, argv in processes() if str(one_nsys) in argv[0] and working_folder(pid) == folder)
        (agent,) = (pid for pid, argv in processes() if f"--session-name=profile-{nsys}" in argv)
        os.kill(agent, signal.SIGKILL)
        await_line(folder / "rank-0.log", "which goes on without it")
        (folder / "go").touch()

    folder = profiled(one_nsys, code=7, during=kill_the_agent, CODE="7", WAIT_FOR="go")
    log = (folder / "rank-0.log").read_text()
    assert "Connection to Agent lost" in log
    assert "llmbx: the profiler ended with exit code 0 while the program runs" in log
    (finding,) = findings(folder)
    assert finding.rule == "profile_missing" and "nsys ended before the program on rank 0" in finding.problem


def await_line(file: Path, text: str) -> None:
    """Wait until the file contains the text."""
    deadline = time.monotonic() + PATIENCE_S
    while text not in file.read_text():
        assert time.monotonic() < deadline, file.read_text()
        time.sleep(0.01)


def processes() -> Iterator[tuple[int, list[str]]]:
    """The process ids of this machine with their command lines."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argv := path.read_text(errors="replace").split("\0")[:-1]:
                yield int(path.parent.name), argv


def working_folder(pid: int) -> Path | None:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cwd").readlink()
    return None


def test_a_range_that_never_starts_is_noticed(nsys: Path, profiled: Profiled) -> None:
    """nsys leaves no file, exits with 0 and says nothing."""
    folder = profiled(nsys, NEVER="1")
    assert ".nsys-rep" not in [path.suffix for path in files_below(folder)]
    (finding,) = findings(folder)
    assert not finding.warning and finding.rule == "profile_missing"
    assert "rank 0 wrote no profile" in finding.problem and "steps 45-50 never started" in finding.problem


def test_a_stream_is_finished_where_the_importer_is(one_nsys: Path, profiled: Profiled, tmp_path: Path) -> None:
    folder = profiled(without_importer(one_nsys, tmp_path / "image"))
    assert [path.suffix for path in (folder / "nsys_profile").glob("line-*")] == [".qdstrm"]
    assert findings(folder) == []
    assert steps_of_rank_0(one_nsys, folder, tmp_path) == [45, 46, 47, 48, 49]


@pytest.mark.parametrize("fails", [1, 3])
def test_a_failed_import_is_repeated_on_the_rank(
    fails: int, one_nsys: Path, profiled: Profiled, tmp_path: Path
) -> None:
    """nsys itself imports once, and exits with code 0 although it leaves no report."""
    folder = profiled(with_failing_importer(one_nsys, tmp_path / "busy", fails))
    assert [path.suffix for path in (folder / "nsys_profile").glob("line-*")] == [".nsys-rep"]
    log = (folder / "rank-0.log").read_text()
    assert "Importer error status" in log and log.count("importing it again") == fails
    assert findings(folder) == []
    assert steps_of_rank_0(one_nsys, folder, tmp_path) == [45, 46, 47, 48, 49]


def test_an_import_that_failed_on_the_rank_is_repeated_after_the_run(
    one_nsys: Path, profiled: Profiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys = with_failing_importer(one_nsys, tmp_path / "busy", 4)
    folder = profiled(nsys)
    assert [path.suffix for path in (folder / "nsys_profile").glob("line-*")] == [".qdstrm"]
    monkeypatch.setenv("LLMBX_NSYS", str(nsys))
    assert findings(folder) == []
    assert steps_of_rank_0(one_nsys, folder, tmp_path) == [45, 46, 47, 48, 49]


def test_an_import_that_always_fails_is_named(
    one_nsys: Path, profiled: Profiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys = with_failing_importer(one_nsys, tmp_path / "broken", 99)
    folder = profiled(nsys)
    monkeypatch.setenv("LLMBX_NSYS", str(nsys))
    (unfinished,) = findings(folder)
    assert (unfinished.rule, unfinished.warning) == ("profile_unfinished", False)
    assert unfinished.problem.endswith(
        "line-mini_local_0_0.qdstrm: import failed: Import Failed with unexpected exception: RuntimeException"
    )
    assert [path.suffix for path in (folder / "nsys_profile").glob("line-*")] == [".qdstrm"], "nothing is lost"


def test_the_verb_reads_reports_and_leaves_them_as_they_were(one_nsys: Path, profiled: Profiled) -> None:
    folder = profiled(one_nsys, ranks=2)
    before = {path: path.read_bytes() for path in sorted((folder / "nsys_profile").iterdir())}
    shown = CliRunner().invoke(command, [str(folder), "--format", "json"])
    assert shown.exit_code == 0, shown.output
    analysis = json.loads(shown.stdout)
    assert [rank["rank"] for rank in analysis["ranks"]] == [0, 1]
    assert analysis["files"][0]["product"].startswith("2023.4")
    table = CliRunner().invoke(command, [str(folder)])
    assert "rank 1" in table.stdout and "llmbx:step" in table.stdout
    assert {path: path.read_bytes() for path in sorted((folder / "nsys_profile").iterdir())} == before


def test_a_report_that_nsys_cannot_read_is_one_line(one_nsys: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.nsys-rep").write_bytes(b"not a report")
    done = CliRunner().invoke(command, [str(tmp_path)])
    assert done.exception is not None and "broken.nsys-rep: nsys export failed" in str(done.exception)
    assert "\n" not in str(done.exception)


def test_several_ranks_with_an_nsys_that_hangs_are_refused(
    old_nsys: Path, one_nsys: Path, make_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    two = make_spec(gpus=2, gpus_per_node=2, profile=ProfileSpec(tool="nsys", start=1, stop=2, ranks="all"))
    one = two.replace(profile=ProfileSpec(tool="nsys", start=1, stop=2, ranks="0"))
    monkeypatch.setenv("LLMBX_NSYS", str(old_nsys))
    refused = obstacle(two)
    assert refused is not None and "hangs if several ranks of a machine are profiled" in refused.problem
    assert obstacle(one) is None
    monkeypatch.setenv("LLMBX_NSYS", str(one_nsys))
    assert obstacle(two) is None
