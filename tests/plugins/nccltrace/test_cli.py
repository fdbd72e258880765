"""The command line of `llmbx nccl`."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from llmbx.errors import LlmbxError, UsageError
from llmbx_nccltrace.cli import command
from llmbx_nccltrace.render import OPERATIONS

from .lines import coll, head, opened

Run = Callable[..., Result]
LINES = [
    "NCCL version 2.27.5+cuda12.9",
    head() + "Using network Socket",
    head() + "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0",
    *[opened(rank, 2, pid=100 + rank, comm=f"0x5{rank}") for rank in range(2)],
    *[coll("AllGather", pid=100 + rank, comm=f"0x5{rank}", nranks=2) for rank in range(2) for _ in range(3)],
    coll("Broadcast", dtype=1, count=512, pid=100, comm="0x50", nranks=2),
]


def run(*arguments: str | Path) -> Result:
    """Run the command; errors of llmbx are raised."""
    result = CliRunner().invoke(command, [str(a) for a in arguments])
    if isinstance(result.exception, LlmbxError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A small log of two ranks."""
    path = tmp_path / "log-run.out"
    path.write_text("".join(line + "\n" for line in LINES))
    return path


def as_json(*arguments: str | Path) -> dict[str, Any]:
    """Return the JSON that the command prints to stdout."""
    found: dict[str, Any] = json.loads(run(*arguments, "--format", "json").stdout)
    return found


def test_the_path_of_the_page_is_not_empty() -> None:
    with pytest.raises(UsageError, match="--html '': expected a path"):
        run("x.log", "--html", "")


@pytest.mark.parametrize("engine", ["python", "native", "auto"])
def test_json_has_what_programs_read(log: Path, engine: str) -> None:
    found = as_json(log, "--engine", engine)
    assert found["lines"] == len(LINES)
    assert found["operations"] == [
        {"op": "AllGather", "datatype": "bfloat16", "nranks": 2, "count": 1024, "message_bytes": 4096, "calls": 6},
        {"op": "Broadcast", "datatype": "uint8", "nranks": 2, "count": 512, "message_bytes": 512, "calls": 1},
    ]
    assert [(c["id"], c["nranks"], c["ranks_seen"], c["calls"]) for c in found["communicators"]] == [("0xabc", 2, 2, 7)]
    assert found["transport"]["verdict"] == "Socket" and found["transport"]["evidence"]
    assert any("sockets" in warning for warning in found["warnings"])
    assert found["lagging"][0]["rank"] == 1 and found["versions"] == ["NCCL version 2.27.5+cuda12.9"]


def test_the_first_failure_stands_before_its_echoes(tmp_path: Path) -> None:
    log = tmp_path / "log-run.out"
    watchdog = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=15, OpType=ALLREDUCE)"
    own = (
        f"5: {head(pid=105)}".replace("INFO ", "WARN ") + "Cuda failure 700 'an illegal memory access was encountered'"
    )
    log.write_text("\n".join([*LINES, f"0: [rank0]:[E304 08:20:10.40 a.cpp:683] {watchdog}", own, ""]))
    failed = as_json(log)["failed"]
    assert (failed["rank"], failed["infrastructure"]) == (5, False) and "Cuda failure 700" in failed["cause"]
    assert [echo["rank"] for echo in failed["echoes"]] == [0]
    warning = next(line for line in run(log).stdout.splitlines() if line.startswith("warning: "))
    assert warning.startswith("warning: failed first: rank 5 on ") and warning.endswith("; see llmbx explain")


def test_of_logs_for_each_rank_the_name_of_the_file_says_which_one_failed(tmp_path: Path) -> None:
    for rank in range(3):
        own = ["terminate called after throwing an instance of 'std::bad_alloc'"] if rank == 2 else []
        (tmp_path / f"nccl-rank-{rank}.log").write_text("\n".join([*LINES, *own, ""]))
    assert as_json(tmp_path)["failed"]["rank"] == 2


def test_a_failure_that_steps_follow_is_not_named(log: Path) -> None:
    steps = "".join(
        f" [2026-03-04 08:20:25] iteration {k:8d}/      50 | consumed samples:  128 | elapsed time per iteration (ms): 571.2 | lm loss: 1.1E+01 |\n"  # noqa: E501
        for k in range(1, 9)
    )
    log.write_text("Traceback (most recent call last):\nModuleNotFoundError: no\n" + log.read_text() + steps)
    assert as_json(log)["failed"] is None


def test_csv_has_one_row_per_kind_of_call(log: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run(log, "--format", "csv").stdout)))
    assert [list(row) for row in rows] == [list(OPERATIONS)] * 2
    assert [list(row.values()) for row in rows] == [
        ["AllGather", "bfloat16", "2", "1024", "4096", "6"],
        ["Broadcast", "uint8", "2", "512", "512", "1"],
    ]


def test_the_table(log: Path, golden: Callable[[str, str], None]) -> None:
    golden("table.txt", run(log).stdout)


def test_the_fallback_is_red_on_a_terminal_and_plain_through_a_pipe(log: Path) -> None:
    program = [sys.executable, "-m", "llmbx", "nccl", str(log)]
    leader, follower = pty.openpty()
    subprocess.run(program, stdout=follower, check=True)
    os.close(follower)
    assert b"\x1b[31mwarning: fallback to sockets" in os.read(leader, 65536)
    os.close(leader)
    piped = subprocess.run(program, capture_output=True, check=True).stdout
    assert b"warning: fallback to sockets" in piped and b"\x1b" not in piped


def test_truncated_tables_show_the_total(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(coll(count=n) + "\n" for n in range(20)))
    shown = run(log, "--top", "3").stdout
    assert "calls by size (3 of 20; --top N or --format json for more)" in shown
    assert len(as_json(log)["operations"]) == 20


def test_files_per_rank_and_a_compressed_log_are_one_trace(tmp_path: Path) -> None:
    folder = tmp_path / "nccl_trace"
    folder.mkdir()
    for rank in range(2):
        lines = [opened(rank, 2, pid=100 + rank, comm="0x5"), coll(pid=100 + rank, comm="0x5", nranks=2)]
        text = "".join(line + "\n" for line in lines).encode()
        if rank:
            (folder / f"nccl.node1.{100 + rank}.log.gz").write_bytes(gzip.compress(text))
        else:
            (folder / f"nccl.node1.{100 + rank}.log").write_bytes(text)
    (folder / "README").write_text("not a log")
    found = as_json(folder)
    assert (len(found["files"]), found["lines"], len(found["communicators"])) == (2, 4, 1)
    assert found["communicators"][0]["ranks_seen"] == 2


def test_processes_without_host_in_two_files_are_two(tmp_path: Path) -> None:
    for name, calls in (("a.log", 2), ("b.log", 1)):
        (tmp_path / name).write_text((coll(host=None, nranks=2) + "\n") * calls)
    for engine in ("python", "native"):
        found = as_json(tmp_path, "--engine", engine)
        assert [(lag["calls"], lag["peers"]) for lag in found["lagging"]] == [(1, 2)]


def test_a_run_folder_is_its_log_and_its_trace(log: Path) -> None:
    for name in ("sbatch_run.out", "attempts/1/log-run.out", "nccl_trace/README", ".hidden.log"):
        path = log.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(coll() + "\n")
    (log.parent / "nccl_trace" / "nccl.node1.7.log").write_text(coll(pid=7) + "\n")
    found = as_json(log.parent, log)
    assert sorted(Path(path).name for path in found["files"]) == ["log-run.out", "nccl.node1.7.log"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "no such file or folder"),
        (lambda path: path.mkdir(), "no log in this folder"),
        (lambda path: path.write_text("step 1 done\n"), r"no NCCL lines found\. Set NCCL_DEBUG=INFO"),
        (lambda path: path.write_text(""), "no NCCL lines found"),
    ],
)
def test_an_invalid_trace_is_a_one_line_error(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    path = tmp_path / "thing"
    make(path)
    with pytest.raises(UsageError, match=said) as caught:
        run(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"x" * 99)[:-20], b"\x1f\x8b\x08\x00" + b"?" * 50])
def test_an_unreadable_compressed_log_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(content)
    with pytest.raises(LlmbxError, match=r"cannot read .*log\.gz") as caught:
        run(path)
    assert "\n" not in str(caught.value)


def test_the_html_page_has_the_same_numbers(tmp_path: Path) -> None:
    (tmp_path / "log.out").write_text("\n".join(LINES) + "\n")
    page = tmp_path / "new" / "trace.html"
    printed = json.loads(run(tmp_path / "log.out", "--html", page, "--format", "json").stdout)
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "<title>NCCL trace" in text
    assert f'data-value="{printed["totals"][0]["calls"]}"' in text and 'id="nccl-message-sizes"' in text


def test_no_text_of_the_log_becomes_markup_of_the_page(tmp_path: Path) -> None:
    attack = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    text = "\n".join(LINES).replace("node1", f"node1{attack.replace(' ', '')}")
    (tmp_path / "x.log").write_text(f"{text}\n{head().replace('INFO', 'WARN')}{attack}\n{attack}\n")
    run(tmp_path / "x.log", "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<script") == 1 and "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
