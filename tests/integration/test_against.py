"""`llmbx run --against` with real runs of a made-up framework, from the command to the verdict."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Llmbx = Callable[..., subprocess.CompletedProcess[str]]

CODES = {"equivalent": 0, "faster": 0, "slower": 3, "inconclusive": 5}


def test_both_jobs_alternate_and_are_compared(llmbx: Llmbx, install: Path) -> None:
    first = json.loads(llmbx("run", "line", "--format", "json").stdout)["run_id"]
    done = llmbx("run", "line", "--set", "pace=0.02", "--against", "last", "--interleave", "2", "--format", "json")
    found = json.loads(done.stdout)
    verdict = found["comparison"]["verdict"]
    assert done.returncode == CODES[verdict] and verdict in ("slower", "inconclusive"), done.stderr
    assert found["comparison"]["change"]["over"] == "pairs" and found["comparison"]["change"]["fraction"] > 0
    records = {}
    for path in install.glob("workloads/*/experiments/*/*/*/run.json"):
        record = json.loads(path.read_text())
        records[record["run_id"]] = record
    ordered = [records[result["run_id"]] for result in found["results"]]
    assert [record["pair"]["side"] for record in ordered] == ["a", "b", "b", "a"]
    assert [record["pair"]["number"] for record in ordered] == [1, 1, 2, 2]
    assert [record["created"] for record in ordered] == sorted(record["created"] for record in ordered)
    assert {record["repeats"] for record in ordered if record["pair"]["side"] == "a"} == {first}
    assert {record["spec"]["settings"]["pace"] for record in ordered if record["pair"]["side"] == "b"} == {0.02}
    a, b = found["comparison"]["a"]["runs"], found["comparison"]["b"]["runs"]
    again = llmbx("compare", a[0], b[0], "--format", "json")
    assert json.loads(again.stdout)["change"] == found["comparison"]["change"]
    assert again.returncode == done.returncode
    assert [d["what"] for d in found["comparison"]["differences"]] == ["setting pace"]


def test_a_run_that_fails_ends_it(llmbx: Llmbx) -> None:
    llmbx("run", "line")
    done = llmbx("run", "line", "--set", "fault=nan", "--against", "last", "--interleave", "3")
    assert done.returncode == 1
    assert "no comparison: " in done.stderr and "side A" in done.stderr and "pair 2" not in done.stderr


def test_what_cannot_alternate_is_refused(llmbx: Llmbx) -> None:
    llmbx("run", "line")
    for options, says in (
        (("--against", "last", "--detach"), "--against cannot be combined with --detach"),
        (("--against", "last", "--repeat", "2"), "--against cannot be combined with --repeat: use --interleave"),
        (("--interleave", "2"), "--interleave needs --against RUN"),
        (("--against", "nothing"), "no run 'nothing'"),
        (("--against", "nothing", "--dry-run"), "no run 'nothing'"),
        (("--against", "last", "--emit-script", "x.sh"), "it cannot be combined with --emit-script"),
        (("--against", "last", "--gpus", "2"), "not comparable: the number of GPUs differs (1 and 2)"),
    ):
        done = llmbx("run", "line", *options)
        assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
    shown = llmbx("run", "line", "--against", "last", "--dry-run")
    assert shown.returncode == 0 and "this is side B; side A repeats fit_line_" in shown.stderr
