"""The checks: is the run what was asked for, and can its figures be true? Pure functions of one `Evidence`.

docs/checks.md is made from them. A check gets the whole evidence and answers with a line, with the reason why it is not
possible, or with nothing. To add one: write the function beside its group, and add a `Check` to the group's `CHECKS`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.result import CheckOutcome
from . import damage, end, hardware, loss, timing, work
from .base import Check, Evidence, NotPossible

GROUPS: dict[str, tuple[Check, ...]] = {
    "Loss": loss.CHECKS,
    "Work": work.CHECKS,
    "Time": timing.CHECKS,
    "End": end.CHECKS,
    "Hardware": hardware.CHECKS,
    "Log": damage.CHECKS,
}
"""Every check, by group, in the order in which they run and in which the first finding becomes the cause."""


def run_checks(evidence: Evidence, own: Sequence[Check] = ()) -> tuple[CheckOutcome, ...]:
    """The checks that found something or were not possible. A log without a step has nothing to check.

    `own` are those of the run's plugins, after the others.
    """
    if not evidence.steps:
        return ()
    found = []
    for check in (*(check for checks in GROUPS.values() for check in checks), *own):
        answer = check.test(evidence)
        if isinstance(answer, NotPossible):
            found.append(CheckOutcome(check=check.id, outcome="not possible", text=answer.reason))
        elif answer is not None:
            found.append(CheckOutcome(check=check.id, outcome=check.effect, text=answer))
    return tuple(found)


def first(outcomes: tuple[CheckOutcome, ...], outcome: str) -> CheckOutcome | None:
    """The first finding with this outcome."""
    return next((found for found in outcomes if found.outcome == outcome), None)


def texts(outcomes: tuple[CheckOutcome, ...], outcome: str) -> tuple[str, ...]:
    """The lines of the findings with this outcome, each with the check's name."""
    return tuple(f"{found.text} (check {found.check})" for found in outcomes if found.outcome == outcome)
