"""Every fault in a training with exit code 0 changes the verdict.

`tests/thorough/test_other_formats.py` tries the faults in further log formats that can show them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.model import Result
from llmbx.plugins.manager import Plugins, load
from llmbx.run.pipeline import exit_code
from llmbx_verdict.checks import GROUPS

from .fault_cases import UNIT_FAULTS
from .faults import ALL, EVALUATION, FAULTS
from .invented import INVENTED
from .made_log import Made
from .made_run import clean, result
from .silent import SILENT

Judge = Callable[[Made], Result]

ELSEWHERE = {"several-trainings", "work-changes", "measure-twice", "verify-compute"}
"""Checks of logs without a run (`tests/core/cli/test_parse_checks.py`), of measures, which these formats lack, and of
what ranks recorded (`tests/plugins/verdict/checks/test_compute.py`)."""

EVERY = {check.id for group in GROUPS.values() for check in group} - ELSEWHERE
"""All other checks."""

XLA = {"autotune-fallback", "cpu-fallback", "memory-tight", "profile-rejected"}
"""Checks of lines that XLA prints."""

NOT_SHOWN = {
    "bridge": {"gdr-off", "node-mixed", *XLA},
    "nemo2": {"gradient-missing", *XLA},
    "maxtext": {"gradient-missing", "rate-missing", "work-missing", "fallback", "too-fast"},
}
"""Checks of what a format need not print: values that only some versions print are not missed; MaxText has no
configurations to fall back to, and prints no time below a millisecond; the training of Megatron-Bridge has one node."""


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load()


@pytest.fixture
def judge(tmp_path: Path, plugins: Plugins) -> Judge:
    """The result of a run that left this log, and ended with exit code 0."""
    return lambda log: result(log, plugins, tmp_path)


@pytest.mark.parametrize("format_", ALL)
def test_a_clean_training_passes_every_check(format_: str, plugins: Plugins, judge: Judge) -> None:
    found = judge(clean(format_, plugins))
    assert [outcome for outcome in found.checks if outcome.outcome != "not possible"] == []
    assert (found.status, found.data_valid, found.comparable, exit_code(found)) == ("completed", True, True, 0)
    assert found.mfu.value == pytest.approx(0.4, rel=0.01)
    assert not [line for line in found.warnings if "check" in line]


@pytest.mark.parametrize("format_", ALL)
def test_every_check_is_tried_in_each_format_that_can_show_it(format_: str, plugins: Plugins, judge: Judge) -> None:
    """A check that has its input in a clean log of this format, with all that it may print, finds a fault in one."""
    log = clean(format_, plugins)
    log.every(grad=2.5, lr=1e-6)
    log.inside[25] = [EVALUATION[format_].format("5.000")] if format_ in EVALUATION else []
    impossible = {found.check for found in judge(log).checks if found.outcome == "not possible"}
    tried = {
        fault.check for fault in (*FAULTS.values(), *SILENT.values(), *INVENTED.values()) if format_ in fault.formats
    }
    unseen = NOT_SHOWN.get(format_, set())
    assert EVERY - impossible - unseen - tried == set(), "no fault in this format shows what these checks do"
    assert tried & unseen == set()


@pytest.mark.parametrize(("name", "format_"), UNIT_FAULTS)
def test_a_fault_changes_the_verdict(name: str, format_: str, plugins: Plugins, tmp_path: Path) -> None:
    changes_the_verdict(name, format_, plugins, tmp_path)


def changes_the_verdict(name: str, format_: str, plugins: Plugins, folder: Path) -> None:
    fault, log = FAULTS[name], clean(format_, plugins)
    fault.change(log)
    found = result(log, plugins, folder)
    assert (fault.check, fault.effect) in {(outcome.check, outcome.outcome) for outcome in found.checks}
    fails = fault.effect in ("failed", "invalid")
    assert exit_code(found) == (1 if fails else 0)
    assert found.status == ("failed" if fails else "completed")
    assert found.data_valid is (fault.effect != "invalid")
    assert found.comparable is (fault.effect != "not comparable")
    said = {"invalid": (found.cause,), "failed": (found.cause,), "not comparable": found.not_comparable_because}
    assert any(line for line in said.get(fault.effect, found.warnings))


def test_a_run_whose_log_is_out_of_order_has_no_figure_and_names_the_lines(plugins: Plugins, judge: Judge) -> None:
    log = clean("bridge", plugins)
    FAULTS["lines in reverse order"].change(log)
    found = judge(log)
    assert re.fullmatch(r"out of order, lines \d+ and \d+ \(check out-of-order\)", found.cause or "")
    assert (found.step_time_s.mean, found.mfu.value, found.loss.last, found.steps_measured) == (None, None, None, 0)


def test_a_loss_that_the_synthetic_data_makes_0_is_valid(plugins: Plugins, judge: Judge) -> None:
    log = clean("maxtext", plugins)
    log.every(loss=lambda k: max(0.0, math.log(32000) - k))
    assert judge(log).data_valid
    log.every(loss=0.0)
    found = judge(log)
    assert found.data_valid and "loss-zero" in [outcome.check for outcome in found.checks]


def test_a_training_from_a_checkpoint_may_start_low(plugins: Plugins, judge: Judge) -> None:
    log = clean("bridge", plugins)
    log.every(loss=lambda k: 2.1 + 0.001 * (k % 7))
    log.before.append(" successfully loaded checkpoint from /weights [ t 1/1, p 1/1 ] at iteration 0")
    assert judge(log).data_valid


def test_stamps_of_the_log_are_the_clock_of_a_run_that_nobody_followed(plugins: Plugins, judge: Judge) -> None:
    log = clean("bridge", plugins)
    log.arrivals = {}
    found = judge(log)
    assert "clock-short" in [outcome.check for outcome in found.checks if outcome.outcome == "invalid"], (
        "every line has the same stamp"
    )
