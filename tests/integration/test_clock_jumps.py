"""The wall clock of the machine is set in the middle of a healthy run, for llmbx and for all that it starts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..patience import PATIENCE_S, wait_until

SOURCE = Path(__file__).parents[1] / "fixtures" / "wall_clock.c"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that moves the wall clock of the programs that load it by the seconds in the file TEST_CLOCK."""
    built = tmp_path_factory.mktemp("clock") / "wall_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", built, SOURCE], check=True)
    return built


@pytest.mark.parametrize("jump_s", [600, -3600])
def test_a_healthy_run_is_completed_and_valid(
    library: Path, background: Callable[..., subprocess.Popen[str]], install: Path, tmp_path: Path,
    read_result: Callable[[Path], dict[str, Any]], jump_s: int,
) -> None:  # fmt: skip
    clock, go = tmp_path / "clock", tmp_path / "go"
    clock.write_text("0")
    run = background(
        "run", "line", "--set", "pace=0.1", "--set", f"hold={go}", "--set", "metrics=true", "--walltime", "5",
        env={"LD_PRELOAD": str(library), "TEST_CLOCK": str(clock)},
    )  # fmt: skip
    wait_until(lambda: any("toy step 5/" in log.read_text() for log in install.glob("workloads/**/log-*.out")))
    clock.write_text(str(jump_s))
    go.touch()
    out, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, (out, err)
    (folder,) = install.glob("workloads/*/experiments/*/*/*")
    exit_ = json.loads((folder / "exit.json").read_text())
    assert abs(exit_["ended"] - exit_["started"] - jump_s) < PATIENCE_S, "the clock of the script was set"
    result = read_result(folder)
    assert (result["status"], result["data_valid"], result["warnings"]) == ("completed", True, [])
    doubts = {check["check"]: check["text"] for check in result["checks"]}
    assert "run-shorter" not in doubts and "set" not in doubts.get("clock-long", ""), doubts
    claimed = sum(json.loads(line)["time_s"] for line in (folder / "steps.jsonl").read_text().splitlines())
    assert claimed < result["timing"]["total_s"] < PATIENCE_S
    assert 0 < result["timing"]["first_step_s"] < result["timing"]["total_s"]
    ((_, set_by),) = json.loads((folder / "arrivals.json").read_text())["clock_set"]
    assert abs(set_by - jump_s) < 2
