"""`llmbx explain`: the first failure with its place, what followed, and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from llmbx.errors import UsageError
from llmbx.logs.signature_table import signatures
from llmbx_explain.advice import BY_KIND
from llmbx_explain.cli import command

from ...run_factory import RunFactory

LOG = """\
2: [rank2]:[W304 08:10:31.112233 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=8): Connection reset by peer
5: [rank5]: Traceback (most recent call last):
5: [rank5]:   File "train.py", line 3, in <module>
5: [rank5]: ValueError: Sample 88213 has 4097 tokens
0: [rank0]:[E304 08:20:10.408 ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective operation timeout: Work
1: [rank1]:[E304 08:20:10.408 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective operation timeout: Work
srun: error: n2: task 5: Exited with exit code 1
"""


def explain(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "slurm-7.out"
    path.write_text(LOG)
    return path


def test_the_first_failure_has_rank_node_and_place(log: Path) -> None:
    done = explain(log)
    lines = done.stdout.splitlines()
    assert done.exit_code == 0 and lines[0] == "failed first: rank 5 on n2"
    assert lines[1] == "  ValueError: Sample 88213 has 4097 tokens" and lines[2] == f"  {log}:4"
    assert any(line.startswith("  2 x ranks 0, 1: ") for line in lines)
    assert any(line.startswith("  1 x rank 2: ") for line in lines) and max(map(len, lines[3:])) <= 80
    assert lines[-1] == "retry: other nodes do not help"


def test_json_has_what_failed_and_what_followed(log: Path) -> None:
    found = json.loads(explain(log, "--format", "json").stdout)
    failed = found["failed"]
    assert (failed["cause"], failed["rank"], failed["node"]) == ("ValueError: Sample 88213 has 4097 tokens", 5, "n2")
    assert (failed["file"], failed["line"], failed["infrastructure"]) == (str(log), 4, False)
    assert {line["rank"] for line in found["followed"]} == {0, 1, 2, 5} and found["unrelated"] == []


def test_a_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "quiet.out"
    path.write_text("hello\n")
    with pytest.raises(UsageError, match="no failure found, and no step of a training either: no log format"):
        explain(path)


def test_how_far_a_log_without_a_failure_goes_is_said(tmp_path: Path) -> None:
    path = tmp_path / "bridge.out"
    line = "iteration        {}/      50 | elapsed time per iteration (ms): 9400.1 | lm loss: 1.1E+01 |"
    path.write_text("".join(f" [2026-11-26 10:00:0{number}] {line.format(number)}\n" for number in (1, 2)))
    words = " ".join(explain(path).stdout.split())
    assert words == f"{path}: no failure found up to its last step, 2 of 50"


def test_of_a_rank_that_only_ended_its_last_line_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "slurm-8.out"
    path.write_text(
        "5: cat: /data/shard: No such file or directory\n2: step 3\nsrun: error: n2: task 5: Exited with exit code 1\n"
        "5: slurmstepd-n2: error: *** STEP 8.0 ON n2 CANCELLED AT 2026-11-26T11:29:17 ***\n"
    )
    assert "its last line: cat: /data/shard: No such file or directory" in explain(path).stdout.splitlines()
    failed = json.loads(explain(path, "--format", "json").stdout)["failed"]
    assert (failed["rank"], failed["last_line"]) == (5, "cat: /data/shard: No such file or directory")


def test_a_doubt_is_said(tmp_path: Path) -> None:
    path = tmp_path / "tie.out"
    path.write_text(
        "2026-03-04T08:10:00.1Z 5: Traceback (most recent call last):\n2026-03-04T08:10:00.1Z 5: KeyError: 'a'\n"
        "2026-03-04T08:10:00.4Z 7: Traceback (most recent call last):\n2026-03-04T08:10:00.4Z 7: ValueError: b\n"
    )
    lines = explain(path).stdout.splitlines()
    assert lines[0].startswith("failed first: rank 5 or 7") and "in doubt: rank 5 or 7; all within a second" in lines


def test_every_kind_of_failure_has_advice() -> None:
    told = {signature.kind for signature in signatures() if signature.role not in ("stopped", "notice")}
    assert told - {"nccl_warning", "exception"} <= set(BY_KIND)


@pytest.mark.parametrize("name", ["missing", "none"])
def test_what_is_neither_a_run_nor_a_log_is_one_line(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llmbx.api import UsageError

    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path))
    with pytest.raises(UsageError, match="no such file or folder"):
        explain(tmp_path / name)


def test_of_a_run_that_never_started_no_rank_is_named(run_factory: RunFactory) -> None:
    cause = f"environment trainer is not built: {'x' * 400}; check the network"
    run = run_factory.put([], valid=False, result={"cause": cause, "exit_code": 4})
    first, message, *advice = explain(run.path).stdout.splitlines()
    assert (first, message.strip()) == ("failed before a rank was started:", cause)
    assert advice == ["do: what the message says, then run it again"]
