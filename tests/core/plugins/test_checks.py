"""Checks that plugins bring: whose runs they are for, what they read, and what their answers do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pluggy
import pytest

from llmbx import hookimpl, hookspecs
from llmbx.errors import PluginError
from llmbx.model import Finding, RunSpec, Step
from llmbx.model.evidence import Check, Evidence, NotPossible
from llmbx.plugins.manager import Plugins
from llmbx.run.checks import run_checks

Make = Callable[..., RunSpec]
MISSING = Finding(rule="profile", problem="no profile", fix="again")
OWN, EXPECTED = "plugin 'a': check 'own'", "expected a line, findings, NotPossible or None"
SLOW = MISSING.replace(problem="it is slow", warning=True)


def check(answer: Any = "odd", effect: Any = "failed", **members: Any) -> Check:
    return Check(id="own", reads="", means="", do="", effect=effect, test=lambda evidence: answer, **members)


def having(**checks: Check) -> Plugins:
    """Plugins of these names with one check each."""
    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)
    for name, one in checks.items():
        function = hookimpl(lambda one=one: [one])
        registry.register(type("Odd", (), {"register_checks": staticmethod(function)}), name=name)
    return Plugins(registry, [])


def outcomes(plugins: Plugins, evidence: Evidence, **captured: Any) -> list[tuple[str, str, str]]:
    found = run_checks(evidence, plugins.checks(evidence.spec, **captured))
    return [(o.check, o.outcome, o.text) for o in found if ":" in o.check]


def test_a_check_is_for_the_runs_of_its_plugin_or_for_all(make_spec: Make) -> None:
    plugins = having(a=check(), b=check(), c=check(), everywhere=check(runs="all"))
    spec = make_spec(plugin="a", profilers=("b",))
    steps = (Step(number=1),)
    assert [o[0] for o in outcomes(plugins, Evidence(steps=steps, spec=spec))] == ["a:own", "b:own", "everywhere:own"]
    assert [o[0] for o in outcomes(plugins, Evidence(steps=steps))] == ["everywhere:own"]


def test_a_check_of_steps_needs_steps_and_one_of_files_a_folder(make_spec: Make, tmp_path: Path) -> None:
    plugins = having(steps=check(), files=check(reads_files=True))
    spec = make_spec(plugin="steps", profilers=("files",))
    for steps, folder, names in (
        ((), None, []), ((Step(number=1),), None, ["steps:own"]), ((), tmp_path, ["files:own"]),
    ):  # fmt: skip
        found = outcomes(plugins, Evidence(steps=steps, spec=spec, run_dir=folder))
        assert [name for name, _, _ in found] == names


@pytest.mark.parametrize(
    ("requested", "captured_by", "effects"),
    [
        (("a",), (), [("a:own", "failed")]),
        ((), ("b",), [("b:own", "warning")]),
        (("a",), ("a", "b"), [("a:own", "failed"), ("b:own", "warning")]),
        ((), (), []),
    ],
)
def test_a_profile_that_the_user_did_not_request_is_missed_with_a_warning(
    requested: tuple[str, ...], captured_by: tuple[str, ...], effects: list[tuple[str, str]], make_spec: Make,
    tmp_path: Path,
) -> None:  # fmt: skip
    plugins = having(a=check([MISSING], reads_files=True), b=check([MISSING], reads_files=True))
    evidence = Evidence(steps=(), spec=make_spec(profilers=requested), run_dir=tmp_path)
    found = outcomes(plugins, evidence, captured_by=captured_by)
    assert [(name, effect) for name, effect, _ in found] == effects
    assert {text for _, _, text in found} <= {"no profile; again"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("odd", [("invalid", "odd")]),
        ([MISSING, SLOW], [("invalid", "no profile; again"), ("warning", "it is slow; again")]),
        ((), []),
        (None, []),
        (NotPossible(reason="no loss"), [("not possible", "no loss")]),
        (3, [("not possible", f"{OWN} returned an int, {EXPECTED}")]),
        ("", [("not possible", f"{OWN} returned a str, {EXPECTED}")]),
        (["odd"], [("not possible", f"{OWN} returned a list with a str, expected a list of Finding")]),
    ],
)  # fmt: skip
def test_what_a_check_may_answer(answer: Any, expected: list[tuple[str, str]], make_spec: Make) -> None:
    evidence = Evidence(steps=(Step(number=1),), spec=make_spec(plugin="a"))
    found = outcomes(having(a=check(answer, "invalid")), evidence)
    assert [(outcome, text) for _, outcome, text in found] == expected


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (check(effect="fatal"), "effect is 'fatal', expected one of failed, invalid, not comparable, warning"),
        (check(runs="some"), "runs is 'some', expected one of own, all"),
    ],
)
def test_a_check_with_an_invalid_member_is_named(wrong: Check, says: str, make_spec: Make) -> None:
    evidence = Evidence(steps=(Step(number=1),), spec=make_spec(plugin="a"))
    (found,) = outcomes(having(a=wrong), evidence)
    assert found == ("a:checks", "not possible", f"plugin 'a': check 'own': {says}")


def test_a_failure_of_the_hook_is_named(make_spec: Make) -> None:
    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)

    @hookimpl
    def register_checks() -> list[Check]:
        raise PluginError("no checks today")

    registry.register(type("Odd", (), {"register_checks": staticmethod(register_checks)}), name="a")
    (found,) = outcomes(Plugins(registry, []), Evidence(steps=(Step(number=1),), spec=make_spec(plugin="a")))
    assert found == ("a:checks", "not possible", "no checks today")
