"""Real nsys around the real MaxText on CPU: exactly the asked steps, marked where MaxText itself begins and ends."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import IMPORTER, until_nsys_stays, without_importer

Llmbx = Callable[..., subprocess.CompletedProcess[str]]


def latest(install: Path) -> Path:
    """The folder of the newest run."""
    runs = install.glob("workloads/pretrain_maxtext_llama2/experiments/*/*/*/result.json")
    return max(runs, key=lambda file: file.stat().st_mtime).parent


def test_the_report_holds_the_asked_steps(llmbx: Llmbx, shared_install: Path, one_nsys: Path) -> None:
    asked = (
        "profile",
        "--steps",
        "4-7",
        "--plugin",
        "maxtext",
        "llama2",
        "--size",
        "mini",
        "--gpus",
        "2",
        "--max-steps",
        "12",
    )
    env = {"LLMBX_NSYS": str(one_nsys)}
    done = until_nsys_stays(lambda: llmbx(*asked, install=shared_install, env=env))
    assert done.returncode == 0, done.stdout + done.stderr
    folder = latest(shared_install)
    result = json.loads((folder / "result.json").read_text())
    assert result["profiled"] and "profiled" in result["not_comparable_because"]
    assert not {4, 5, 6, 7} & ({*range(result["window"]["first"], 12)} - {*result["window"]["excluded"]})
    (report,) = (folder / "nsys_profile").glob("*.nsys-rep")
    assert report.stat().st_size > 100_000
    analysis = json.loads((folder / "nsys_profile" / "analysis.json").read_text())
    assert [(step["rank"], step["step"]) for step in analysis["steps"]] == [(0, 4), (0, 5), (0, 6)]
    ranges = {item["text"]: item for item in analysis["ranges"] if item["domain"] == "llmbx"}
    assert ranges["profile"]["calls"] == 1 and ranges["step"]["calls"] == 3
    steps = sum(step["duration_s"] for step in analysis["steps"])
    assert steps == pytest.approx(ranges["profile"]["total_s"], rel=0.05)


def test_the_recipes_own_profile_leaves_a_figure(
    llmbx: Llmbx, shared_install: Path, one_nsys: Path, tmp_path: Path
) -> None:
    """Steps 10 to 14 of the measured run are profiled, as the recipe does, and the run is measured all the same.

    Its nsys writes no report, only a stream: the report is made when the run has ended.
    """
    asked = (
        "run",
        "--plugin",
        "maxtext",
        "llama2",
        "--size",
        "mini",
        "--gpus",
        "2",
        "--steps",
        "20",
        "--window",
        "last",
    )
    env = {
        "LLMBX_NSYS": str(without_importer(one_nsys, tmp_path / "image")),
        "PATH": f"{one_nsys.parents[2] / IMPORTER}:{os.environ['PATH']}",
    }
    done = until_nsys_stays(lambda: llmbx(*asked, "--set", "profile_measured=true", install=shared_install, env=env))
    assert done.returncode == 0, done.stdout + done.stderr
    folder = latest(shared_install)
    result = json.loads((folder / "result.json").read_text())
    reports = list((folder / "nsys_profile").glob("*.nsys-rep"))
    assert len(reports) == 1, (result["warnings"], (folder / f"log-{folder.name}.out").read_text()[-5000:])
    (report,) = reports
    assert report.name == f"{folder.name}-perf.nsys-rep" and report.stat().st_size > 100_000
    assert (result["status"], result["profiled"], result["warnings"]) == ("completed", False, [])
    assert not any("profiled" in reason for reason in result["not_comparable_because"])
    assert (result["window"]["first"], result["window"]["last"], result["steps_measured"]) == (19, 19, 1)
    steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    assert [step["number"] for step in steps if step["time_s"] is None] == [*range(9, 14)]
