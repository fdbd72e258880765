"""Faults in real trainings of minis: an injector changes the rank, the framework trains and writes the log."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .real_faults import FAULTS, MAXTEXT, NEMO, TRAININGS

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
INJECTOR = Path(__file__).parents[1] / "fixtures/fault_injector"


class Ended:
    """A run that has ended: the exit code of `llmbx run`, what it printed, and its folder."""

    def __init__(self, done: subprocess.CompletedProcess[str], install: Path) -> None:
        assert done.stdout.startswith("{"), done.stderr
        self.exit_code, self.result = done.returncode, json.loads(done.stdout)
        (record,) = install.glob(f"workloads/*/experiments/*/{self.result['run_id']}/*/run.json")
        self.folder = record.parent
        self.log = next(self.folder.glob("log-*.out"))

    def outcomes(self) -> dict[str, str]:
        """The findings of the checks."""
        return {each["check"]: each["outcome"] for each in self.result["checks"] if each["outcome"] != "not possible"}


@pytest.fixture(scope="module")
def runs() -> dict[str, Ended]:
    """The runs that have ended, by the name of the training."""
    return {}


@pytest.fixture
def train(llmbx: Llmbx, shared_install: Path, runs: dict[str, Ended], tmp_path: Path) -> Callable[[str], Ended]:
    """`train("second writer")`: the run with this fault; `train("clean")` and `train("clean MaxText")` have none."""

    def run(arguments: tuple[str, ...], inject: dict[str, Any], **env: str) -> Ended:
        changed = ("--env", f"PYTHONPATH={INJECTOR}", "--env", f"INJECT_FAULT={json.dumps(inject)}")
        done = llmbx("run", *arguments, *changed, "--format", "json", install=shared_install, env=env)
        return Ended(done, shared_install)

    def files() -> dict[str, Path]:
        clean = find("clean")
        result, final = clean.folder / "result.json", clean.folder / "configs/final.json"
        other, planted = tmp_path / "other_final.json", tmp_path / "other_result.json"
        other.write_text(final.read_text().replace('"model.num_layers": 4', '"model.num_layers": 2'))
        planted.write_text(result.read_text().replace(clean.result["run_id"], "a_faster_run"))
        return {"log": clean.log, "result": result, "other_final": other, "other_result": planted}

    def python() -> dict[str, str]:
        record = json.loads((find("clean MaxText").folder / "run.json").read_text())
        return {"LLMBX_PYTHON": record["image"]["python"]}

    def find(name: str) -> Ended:
        if name in runs:
            return runs[name]
        if name in CLEAN:
            runs[name] = run(CLEAN[name], {})
            return runs[name]
        found, text = TRAININGS[name], json.dumps(TRAININGS[name].inject)
        for key, path in files().items() if "{" in text[1:] else ():
            text = text.replace(f"{{{key}}}", str(path))
        runs[name] = run(found.arguments, json.loads(text), **(python() if found.host else {}))
        return runs[name]

    return find


CLEAN = {"clean": (*NEMO, "--verify-compute"), "clean MaxText": MAXTEXT}


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_training_is_valid_with_the_injector_too(name: str, train: Callable[[str], Ended]) -> None:
    found = train(name)
    assert found.outcomes() == {}
    assert (found.exit_code, found.result["status"], found.result["data_valid"]) == (0, "completed", True)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_real_training_changes_the_verdict(name: str, train: Callable[[str], Ended]) -> None:
    fault = FAULTS[name]
    found = train(fault.training)
    result = found.result
    assert (found.exit_code, result["status"]) == ((1, "failed") if fault.fails else (0, "completed"))
    assert result["data_valid"] is (fault.effect != "invalid")
    assert result["exit_code"] == fault.exit_code
    if fault.check:
        assert found.outcomes().get(fault.check) == fault.effect
    stability = result["stability"]
    said = [result["cause"]] if fault.fails else [*result["warnings"], *result["not_comparable_because"]]
    said.append(f"{stability['verdict']}: {stability['reason']}")
    named = [line.partition(fault.says)[2] for line in said if fault.says and fault.says in line]
    assert bool(named) == bool(fault.says), said
    assert not fault.at_least_s or float(named[0].split()[0]) >= fault.at_least_s, said
    if fault.effect == "not stable":
        assert stability["verdict"] not in (None, "stable")
        assert result["step_time_s"]["max"] > result["step_time_s"]["min"] + 0.4, "the mean is that of no step"


def test_a_result_that_the_job_wrote_is_kept_apart(train: Callable[[str], Ended]) -> None:
    """The figures are those of the log, not those of the file."""
    found = train("small faults")
    assert json.loads((found.folder / "result.job.json").read_text())["run_id"] == "a_faster_run"
    stored = json.loads((found.folder / "result.json").read_text())
    assert stored["run_id"] == found.result["run_id"] == found.folder.parent.name
