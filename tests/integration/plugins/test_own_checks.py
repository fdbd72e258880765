"""Checks that a plugin brings, and what a profiler changes, in the results of real runs of the toy."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

JUDGE = """
from llmbx.api import Check, NotPossible, Profiler, hookimpl

@hookimpl
def register_profiler():
    return Profiler(disturbs={disturbs!r})

@hookimpl
def wrap_command(spec, launch):
    return launch

def test(evidence):
    {body}

@hookimpl
def register_checks():
    return [Check(id="own", reads="The loss.", means="Odd.", do="Look.", effect={effect!r}, test=test)]
"""
FOUND = 'return f"{len(evidence.steps)} steps, loss {evidence.steps[-1].loss > 0}"'
Judged = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def judged(package: Callable[..., Path], llmbx: Callable[..., Any], tmp_path: Path) -> Judged:
    """`judged("return None")`: exit code, result and stderr of a run of the toy with a profiler that has this check."""

    def run(body: str, effect: str = "warning", disturbs: str = "nothing") -> tuple[int, dict[str, Any], str]:
        package("judge", JUDGE.format(body=body, effect=effect, disturbs=disturbs))
        host = ("--runtime", "host", "--launcher", "local")
        done = llmbx(
            "run", "line", "--steps", "20", "--with", "judge", *host, "--format", "json", LLMBX_PYTHON=sys.executable
        )
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr

    return run


def outcome(result: dict[str, Any]) -> tuple[str, str] | None:
    return next(((c["outcome"], c["text"]) for c in result["checks"] if c["check"] == "judge:own"), None)


@pytest.mark.parametrize(
    ("effect", "code", "status", "valid"),
    [
        ("invalid", 1, "failed", False),
        ("failed", 1, "failed", True),
        ("not comparable", 0, "completed", True),
        ("warning", 0, "completed", True),
    ],
)
def test_a_finding_has_the_effect_of_its_check(
    judged: Judged, effect: str, code: int, status: str, valid: bool
) -> None:
    exit_code, result, _ = judged(FOUND, effect)
    assert (exit_code, result["status"], result["data_valid"]) == (code, status, valid)
    assert outcome(result) == (effect, "20 steps, loss True")
    line = "20 steps, loss True (check judge:own)"
    assert (result["cause"] == line) is (code == 1)
    assert (line in result["not_comparable_because"]) is (effect == "not comparable")
    assert (line in result["warnings"]) is (effect == "warning")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return NotPossible(reason='no loss is printed')", "no loss is printed"),
        ("return 1 / 0", "plugin 'judge': check 'own' failed: ZeroDivisionError: division by zero"),
        ("return 3", "plugin 'judge': check 'own' returned an int, expected a line, findings, NotPossible or None"),
    ],
)
def test_a_check_that_cannot_answer_is_not_possible(judged: Judged, body: str, says: str) -> None:
    code, result, _ = judged(body, "invalid")
    assert (code, result["data_valid"]) == (0, True)
    found = outcome(result)
    assert found is not None and found[0] == "not possible" and found[1].startswith(says)


def test_a_check_that_passes_is_not_listed(judged: Judged) -> None:
    _, result, _ = judged("return None", "invalid")
    assert outcome(result) is None


def test_an_effect_that_does_not_exist_is_named(judged: Judged) -> None:
    code, result, _ = judged(FOUND, "fatal")
    (found,) = (each for each in result["checks"] if each["check"].startswith("judge:"))
    assert code == 0 and "check 'own': effect is 'fatal', expected one of failed, invalid" in found["text"]


@pytest.mark.parametrize("disturbs", ["time", "memory", "nothing", "mind"])
def test_a_profiler_says_what_it_changes(judged: Judged, disturbs: str) -> None:
    code, result, stderr = judged("return None", disturbs=disturbs)
    if disturbs == "mind":
        assert code == 2 and "invalid Profiler" in stderr and "disturbs" in stderr
        return
    reasons, warnings = " ".join(result["not_comparable_because"]), " ".join(result["warnings"])
    assert ("the profiler judge changes the step time" in reasons) is (disturbs == "time")
    assert ("the profiler judge changes the memory" in warnings) is (disturbs == "memory")
