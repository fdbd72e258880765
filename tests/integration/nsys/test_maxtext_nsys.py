"""Real nsys around the real MaxText on CPU: exactly the asked steps, marked where MaxText itself begins and ends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Llmbx = Callable[..., subprocess.CompletedProcess[str]]


def test_the_report_holds_the_asked_steps(llmbx: Llmbx, shared_install: Path, one_nsys: Path) -> None:
    asked = ("profile", "--steps", "4-7", "--plugin", "maxtext", "llama2", "--gpus", "2", "--max-steps", "12")
    done = llmbx(*asked, install=shared_install, env={"LLMBX_NSYS": str(one_nsys)})
    assert done.returncode == 0, done.stderr
    runs = shared_install.glob("workloads/pretrain_maxtext_llama2/experiments/*/*/*/result.json")
    folder = max(runs, key=lambda file: file.stat().st_mtime).parent
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
