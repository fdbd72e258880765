"""The conformance suite of a plugin: what `llmbx plugins check` prints and its own tests assert."""

from __future__ import annotations

import functools
from collections.abc import Callable

from . import drives
from .contract import part_problems
from .faults import faults
from .import_time import import_time
from .minis import Minis
from .outcome import Found, Outcome, described, judged
from .subject import Subject


def examine(subject: Subject, check: str) -> Outcome:
    """Do one of `CHECKS`. An error of the plugin is a failed check."""
    if subject.info.error and check != "hooks":
        why_not = "the plugin cannot be loaded"
        return Outcome(check=check, status="not checked", details=(why_not,))
    try:
        status, details = CHECKS[check](subject)
    except (Exception, SystemExit) as error:
        status, details = "failed", [described(error)]
    return Outcome(check=check, status=status, details=tuple(dict.fromkeys(details)))


def assert_conforms(
    name: str, check: str, log: str | None = None, image: str | None = None
) -> None:
    """Raise `AssertionError` if the plugin fails the check, one of `CHECKS`.

    `log` is a log of its framework, `image` an image for its runtimes. Raises `UsageError` for the
    name of no plugin.
    """
    __tracebackhide__ = True
    outcome = examine(_subject(name, log, image), check)
    if outcome.status == "failed":
        head = f"plugin '{name}' fails the check {check}:"
        raise AssertionError("\n".join([head, *(f"  {text}" for text in outcome.details)]))


_subject = functools.cache(Subject)
_minis = functools.cache(Minis)
"""The minis of a subject: each is trained once."""


def _hooks(subject: Subject) -> Found:
    if subject.info.error:
        return "failed", [f"it cannot be loaded: {subject.info.error}"]
    return judged(part_problems(subject, "hooks"), ", ".join(subject.info.hooks))


def _with(
    hook: str, check: Callable[[Subject], Found], part: str = ""
) -> Callable[[Subject], Found]:
    """A check that needs a hook, after a part of the contract that must hold first."""

    def checked(subject: Subject) -> Found:
        if hook not in subject.info.hooks:
            return "not applicable", [f"it has no hook {hook}"]
        problems = part_problems(subject, part) if part else []
        return ("failed", problems) if problems else check(subject)

    return checked


def _log(subject: Subject) -> Found:
    if subject.log:
        return "ok", ["broken lines do no harm, and every step of the log is found"]
    where = "--log FILE, or tests/*.log in the plugin's folder"
    return "not checked", [f"no log of the framework was given: {where}"]


CHECKS: dict[str, Callable[[Subject], Found]] = {
    "hooks": _hooks,
    "import": import_time,
    "catalog": _with(
        "register_workloads",
        lambda _: ("ok", ["every row gives a specification, a launch and a script"]),
        "catalog",
    ),
    "log": _with("parse_log", _log, "log"),
    "profiler": _with("wrap_command", drives.profiler, "profiler"),
    "launcher": _with("register_launchers", drives.launchers, "tools"),
    "runtime": _with("register_runtimes", drives.runtimes, "tools"),
    "mini": _with("register_workloads", lambda subject: _minis(subject).trained()),
    "flops": _with("compute_flops", lambda subject: _minis(subject).counted()),
    "faults": faults,
}
"""The checks by name, in the order in which they are done."""
