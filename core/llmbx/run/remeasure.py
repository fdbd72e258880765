"""The state of a run as it is now: what has ended is finalized first, and may be measured over another window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..measure.figures import measure
from ..measure.measures import declared_in
from ..model import Figures, Result, Step
from ..plugins.calls import describe_error
from ..record.folder import STEPS, Run, owns, read_result, read_steps, write_result
from ..resolve.numbering import first_number
from .assess import formula
from .finalize import finalize, job_status

if TYPE_CHECKING:
    from ..plugins.manager import Plugins


def figures(run: Run, result: Result | None, steps: Sequence[Step], plugins: Plugins, policy: str | None) -> Figures:
    """The metrics of a run over the window `policy` (None: its own).

    Profiled steps, and the step that writes the profile, are not measured. If the framework's plugin is not installed,
    the values that depend on its formula are None. The measures are those of the run's `result`, else the parser's.
    """
    spec = run.record.spec
    declared = declared_in(result.measures) if result is not None else ()
    if spec.plugin not in plugins.frameworks():
        return measure(spec, steps, policy=policy, declared=declared, judge=plugins.judge)
    flops, faults, _ = formula(spec, plugins)
    declared = declared or plugins.framework(spec.plugin).parse_log(spec).measures
    metrics = measure(spec, steps, flops, policy, first_number(spec, plugins), declared, plugins.judge)
    return metrics.replace(warnings=(*metrics.warnings, *faults))


def rewindowed(run: Run, result: Result, steps: Sequence[Step], plugins: Plugins, policy: str) -> Result:
    """The result with the metrics of another window; warnings that are not about the steps are kept.

    Raises `UsageError` if the file with the steps is gone.
    """
    if result.steps_seen and not steps:
        raise UsageError(f"{run.path / STEPS}: no such file, or an empty one; another window cannot be measured")
    measured = figures(run, result, steps, plugins, policy)
    before = figures(run, result, steps, plugins, result.window.policy).warnings if result.window.policy else ()
    others = tuple(line for line in result.warnings if line not in before)
    members = {name: getattr(measured, name) for name in measured.__struct_fields__}
    return result.replace(**{**members, "warnings": (*measured.warnings, *others)})


def save_window(run: Run, result: Result, plugins: Plugins, policy: str) -> Result:
    """Measure the run again and save the new result.

    Raises `UsageError` if the window contains no measurable step, or if it is the run of another user.
    """
    if not owns(run):
        raise UsageError(f"{run.record.run_id} belongs to {run.files.owner}, who alone can save another window")

    changed = rewindowed(run, result, read_steps(run.path), plugins, policy)
    if not changed.steps_measured:
        raise UsageError(f"{run.record.run_id}: window {policy} measures nothing ({changed.window.reason}); not saved")
    write_result(run.path, changed)
    run.announce_change()
    return changed


UNKNOWN = "unknown"
"""Status of a run without a result, whose state cannot be known here."""

HAS_ENDED = "has ended ("
"""Begins the reason of a run of another user that has ended, and whose result is not recorded yet."""


def refresh_result(run: Run, plugins: Plugins, window: str | None = None) -> Result | None:
    """The run's result, finalized now if the run has just ended; None while it is unfinished.

    That of another user's run is only computed. With `window` it has the metrics of that window;
    then it raises `UsageError` if the file with the steps is gone.
    """
    result = finalize(run, plugins)
    if result is None or window is None:
        return result
    return rewindowed(run, result, read_steps(run.path), plugins, window)


def current_status(run: Run, plugins: Plugins) -> tuple[str, str | None]:
    """Status of a run and the reason: that of its job, or of its result if it has ended.

    The status is "unknown" if its plugin fails or is missing, and for another user's ended run.
    """
    try:
        if read_result(run.path) is None:
            status = job_status(run, plugins)
            if status.state in ("pending", "running"):
                return status.state, status.reason or None
        result = finalize(run, plugins)
        if result is not None and read_result(run.path) is None and not owns(run):
            recorder = f"the next command of {run.files.owner} records it"
            return UNKNOWN, f"{HAS_ENDED}{result.status}); {recorder}"
        return (result.status, result.cause) if result else ("running", None)
    except Exception as error:
        # Its plugin is not installed here, or fails: other runs must still be listed.
        return UNKNOWN, describe_error(error)
