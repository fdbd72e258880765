"""The command to type after a result, by situation."""

from __future__ import annotations

from ..model import Result
from ..model.result import exit_code

INFRASTRUCTURE = ("node_fail", "preempted", "lost")


def next_step(result: Result, name: str, slower: bool = False) -> str | None:
    """A command, and what it is for; None if there is nothing to recommend.

    `name` is how the user can name the run; `slower` is whether it is slower than the published figure allows.
    """
    for advise in (_of_failure, _of_profile, _of_verdict):
        if advice := advise(result, name, slower):
            return advice
    return None


def _of_failure(result: Result, name: str, slower: bool) -> str | None:
    if result.status == "completed" and result.data_valid:
        return None
    if result.status == "cancelled":
        return f"llmbx run --from {name}  (start it again)"
    if result.status in INFRASTRUCTURE or exit_code(result) == 4:
        return f"llmbx run --from {name}  (the infrastructure failed, not the training)"
    failed_check = next((check.check for check in result.checks if check.outcome in ("invalid", "failed")), None)
    where = f"check {failed_check} is explained in docs/checks.md" if failed_check else "read the end of the log"
    return f"llmbx logs {name}  ({where})"


def _of_profile(result: Result, name: str, slower: bool) -> str | None:
    if result.profiled or result.traced:
        return f"llmbx report {name}  (what the profile shows)"
    return None


def _of_verdict(result: Result, name: str, slower: bool) -> str | None:
    mini = result.workload.size == "mini"
    if mini:
        return "llmbx list --here  (what else this machine can run)"
    stability = result.stability.verdict
    if stability not in (None, "stable"):
        return f"llmbx run --from {name} --repeat 3  (the step time is {stability}: one run decides nothing)"
    if slower:
        return f"llmbx profile {result.workload.name} --steps 45-50  (where the time goes)"
    return f"llmbx report {name} --html report.html  (to pass it on)"
