"""Run the checks that the plugins bring, and apply their outcomes to the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..model import Answer, Check, Evidence, Failure, NotPossible
from ..model.result import CheckOutcome

if TYPE_CHECKING:
    from .verdict import Verdict


def run_checks(evidence: Evidence, checks: Sequence[Check]) -> tuple[CheckOutcome, ...]:
    """The checks that found something or were not possible. A log without a step has only files to check.

    Of a log whose lines are out of order only the findings are returned: most checks are not possible then.
    """
    applicable = (check for check in checks if _applies(check, evidence))
    outcomes = (outcome for check in applicable for outcome in _outcomes(check, check.test(evidence)))
    return tuple(outcome for outcome in outcomes if not (evidence.out_of_order and outcome.outcome == "not possible"))


def _applies(check: Check, evidence: Evidence) -> bool:
    if check.reads_files:
        return evidence.run_dir is not None
    return check.any_order if evidence.out_of_order else bool(evidence.steps)


def _outcomes(check: Check, answer: Answer) -> Iterator[CheckOutcome]:
    if isinstance(answer, NotPossible):
        yield CheckOutcome(check=check.id, outcome="not possible", text=answer.reason)
    elif isinstance(answer, str):
        yield CheckOutcome(check=check.id, outcome=check.effect, text=answer)
    else:
        for finding in answer or ():
            outcome = "warning" if finding.warning else check.effect
            text = f"{finding.problem}; {finding.fix}"
            yield CheckOutcome(check=check.id, outcome=outcome, text=text, ranks=finding.ranks, node=finding.node)


def first(outcomes: tuple[CheckOutcome, ...], outcome: str) -> CheckOutcome | None:
    """The first finding with this outcome."""
    return next((finding for finding in outcomes if finding.outcome == outcome), None)


def texts(outcomes: tuple[CheckOutcome, ...], outcome: str) -> tuple[str, ...]:
    """The lines of the findings with this outcome, each with the check's name."""
    return tuple(_line(finding) for finding in outcomes if finding.outcome == outcome)


def decide(verdict: Verdict, evidence: Evidence, checks: Sequence[Check]) -> tuple[Verdict, tuple[CheckOutcome, ...]]:
    """Apply the checks to the verdict: return the new one, and the outcomes of the checks.

    The first finding that makes the data invalid is the cause of a run that would be completed; else the first one that
    only fails it. A failed check of the run's files, such as a missing profile, knows better than the exit code why a
    run with valid data failed.
    """
    outcomes = run_checks(evidence, checks)
    invalid, failed = first(outcomes, "invalid"), first(outcomes, "failed")
    finding = invalid or failed
    if finding is None:
        return verdict, outcomes
    of_files = {check.id for check in checks if check.reads_files}
    about_files = first(tuple(outcome for outcome in outcomes if outcome.check in of_files), "failed")
    if about_files is not None and verdict.data_valid and invalid is None:
        cause = _line(about_files)
    else:
        cause = verdict.cause or _line(finding)
    status = "failed" if verdict.status == "completed" else verdict.status
    failure = verdict.failure
    if verdict.cause is None and finding.ranks:
        rank = finding.ranks[0] if len(finding.ranks) == 1 else None
        failure = Failure(cause=finding.text, kind=finding.check, rank=rank, ranks=finding.ranks, node=finding.node)
    valid = verdict.data_valid and invalid is None
    return verdict.replace(status=status, data_valid=valid, cause=cause, failure=failure), outcomes


def _line(outcome: CheckOutcome) -> str:
    return f"{outcome.text} (check {outcome.check})"
