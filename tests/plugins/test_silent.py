"""Faults that once passed without a word have the right verdict.

`tests/thorough/test_other_formats.py` tries them in further log formats that can show them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.plugins.manager import Plugins, load
from llmbx.run.pipeline import exit_code

from .fault_cases import QUIET, UNIT_SILENT
from .invented import INVENTED, STILL
from .made_run import clean, result, row
from .silent import SILENT, Silent, verdicts

STRENGTH = {"warning": 0, "not stable": 0, "not comparable": 1, "failed": 2, "invalid": 2}
NOT_SILENT = [(name, f.formats[0]) for name, f in INVENTED.items() if f.formats[0] not in STILL.get(name, ())]


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load()


@pytest.mark.parametrize(("name", "format_"), UNIT_SILENT)
def test_a_fault_is_not_silent(name: str, format_: str, plugins: Plugins, tmp_path: Path) -> None:
    is_not_silent(name, format_, plugins, tmp_path)


def is_not_silent(name: str, format_: str, plugins: Plugins, folder: Path) -> None:
    fault = QUIET[name]
    if format_ == "megatron":
        return strangers(fault, plugins, folder)
    log = clean(format_, plugins)
    fault.change(log)
    found = result(log, plugins, folder)
    outcomes = [(outcome.check, outcome.outcome) for outcome in found.checks]
    assert fault.verdict in verdicts(outcomes, found.stability.verdict)
    if fault.check:
        assert (fault.check, fault.verdict) in outcomes
        assert found.data_valid is (fault.verdict != "invalid")
        assert exit_code(found) == (1 if fault.verdict == "invalid" else 0)
    if fault.verdict == "not comparable":
        assert not found.comparable and found.not_comparable_because
    assert fault.verdict != "warning" or found.warnings
    return None


@pytest.mark.parametrize(("name", "format_"), NOT_SILENT)
def test_an_invented_fault_has_its_verdict_or_a_stronger_one(
    name: str, format_: str, plugins: Plugins, tmp_path: Path
) -> None:
    fault = INVENTED[name]
    log = clean("bridge" if format_ == "megatron" else format_, plugins)
    fault.change(log)
    if format_ == "megatron":
        read = row(log, plugins, tmp_path)
        checks, stability = read.checks, read.figures.stability.verdict
    else:
        of_run = result(log, plugins, tmp_path)
        checks, stability = of_run.checks, of_run.stability.verdict
    outcomes = [(outcome.check, outcome.outcome) for outcome in checks]
    if format_ != "megatron" and of_run.status == "failed":
        outcomes.append(("status", "failed"))
    assert max((STRENGTH[verdict] for verdict in verdicts(outcomes, stability)), default=-1) >= STRENGTH[fault.verdict]


def strangers(fault: Silent, plugins: Plugins, folder: Path) -> None:
    """The same log, of Megatron-LM and without a run."""
    log = clean("bridge", plugins)
    fault.change(log)
    found = row(log, plugins, folder)
    outcomes = [(outcome.check, outcome.outcome) for outcome in found.checks]
    assert fault.verdict in verdicts(outcomes, found.figures.stability.verdict)
    assert not fault.check or (fault.check, fault.verdict) in outcomes
    assert found.valid is (fault.verdict != "invalid")


def test_a_clean_log_of_megatron_lm_has_no_finding(plugins: Plugins, tmp_path: Path) -> None:
    found = row(clean("bridge", plugins), plugins, tmp_path)
    assert [check for check in found.checks if check.outcome != "not possible"] == []


@pytest.mark.parametrize("format_", ["bridge", "maxtext"])
@pytest.mark.parametrize("hours", [-8.0, 5.5, 5.75, 13.0])
def test_a_log_in_another_time_zone_is_that_of_the_run(
    format_: str, hours: float, plugins: Plugins, tmp_path: Path
) -> None:
    log = clean(format_, plugins)
    for step in log.steps:
        step["at"] = log.arrivals[step["number"]] + 3600 * hours
    assert [found for found in result(log, plugins, tmp_path).checks if found.outcome != "not possible"] == []


@pytest.mark.parametrize(("name", "seconds"), [("a pause of 20 steps before the window", 20), ("FP8 falls back", 0)])
def test_the_time_outside_of_the_steps_is_in_every_result(
    name: str, seconds: float, plugins: Plugins, tmp_path: Path
) -> None:
    log = clean("bridge", plugins)
    SILENT[name].change(log)
    usual = float(log.steps[20]["time"])
    assert result(log, plugins, tmp_path).timing.outside_steps_s == pytest.approx(seconds * usual, abs=0.1 * usual)


def test_the_log_says_what_the_time_outside_was(plugins: Plugins, tmp_path: Path) -> None:
    log = clean("bridge", plugins)
    SILENT["an evaluation every 10 steps"].change(log)
    (warning,) = [line for line in result(log, plugins, tmp_path).warnings if "outside-steps" in line]
    assert "the log has 4 x evaluation" in warning
