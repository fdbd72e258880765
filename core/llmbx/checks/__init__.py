"""The checks: is the run what was asked for, and can its figures be true? Pure functions of one `Evidence`.

docs/checks.md is made from them. A check gets the whole evidence and answers with a line, with the reason why it is not
possible, or with nothing. To add one: write the function beside its group, and add a `Check` to the group's `CHECKS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model.result import CheckOutcome
from . import damage, end, hardware, loss, timing, work
from .base import Answer, Check, Evidence, NotPossible

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
    """The checks that found something or were not possible. A log without a step has only files to check,
    and in one whose lines are out of order nothing else can be checked.

    `own` are those of plugins, after the others.
    """
    checks = (*(check for group in GROUPS.values() for check in group), *own)
    applicable = (check for check in checks if _applies(check, evidence))
    return tuple(outcome for check in applicable for outcome in _outcomes(check, check.test(evidence)))


def _applies(check: Check, evidence: Evidence) -> bool:
    if check.reads_files:
        return evidence.run_dir is not None
    return check is timing.ORDER if evidence.out_of_order else bool(evidence.steps)


def _outcomes(check: Check, answer: Answer) -> Iterator[CheckOutcome]:
    if isinstance(answer, NotPossible):
        yield CheckOutcome(check=check.id, outcome="not possible", text=answer.reason)
    elif isinstance(answer, str):
        yield CheckOutcome(check=check.id, outcome=check.effect, text=answer)
    else:
        for finding in answer or ():
            outcome = "warning" if finding.warning else check.effect
            yield CheckOutcome(check=check.id, outcome=outcome, text=f"{finding.problem}; {finding.fix}")


def first(outcomes: tuple[CheckOutcome, ...], outcome: str) -> CheckOutcome | None:
    """The first finding with this outcome."""
    return next((found for found in outcomes if found.outcome == outcome), None)


def texts(outcomes: tuple[CheckOutcome, ...], outcome: str) -> tuple[str, ...]:
    """The lines of the findings with this outcome, each with the check's name."""
    return tuple(f"{found.text} (check {found.check})" for found in outcomes if found.outcome == outcome)
