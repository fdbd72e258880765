"""Profiler findings about a run's artifacts, and the overhead of profiling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import LlmbxError
from ..measure import stats
from ..measure.figures import profiled_numbers
from ..model import Finding, RunSpec, Step
from ..plugins.manager import Plugins
from ..record.folder import Run
from .verdict import Verdict


def analyze_artifacts(run: Run, plugins: Plugins, verdict: Verdict) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict after the profilers have analyzed the run's folder, and their warnings.

    A finding that is not a warning fails a run whose data is valid; any other run already has a cause. Findings of a
    profiler that only the framework asked for are warnings: a phase fails by itself without a file that it needs.
    """
    spec, own = run.record.spec, run.record.captured_by
    found = [finding for name in spec.profilers for finding in _analyze(name, spec, run.path, plugins)]
    found += [f.replace(warning=True) for name in own for f in _analyze(name, spec, run.path, plugins)]
    errors = [finding for finding in found if not finding.warning]
    warnings = tuple(_line(finding) for finding in found if finding.warning)
    if not errors or not verdict.data_valid:
        return verdict, warnings
    cause = "; ".join(_line(finding) for finding in errors)
    return Verdict(status="failed", data_valid=True, cause=cause), warnings


def profiling_overhead(
    spec: RunSpec, steps: Sequence[Step], measured_s: float | None, first_number: int | None = None
) -> tuple[str, ...]:
    """Return one line on how much longer profiled steps took than measured ones, or nothing if it is unknown.

    `measured_s` is the median of the measured steps in seconds.
    """
    if spec.profile is None or not measured_s:
        return ()
    numbers = sorted(profiled_numbers(spec, steps, first_number))
    times = {step.number: step.time_s for step in steps if step.time_s is not None}
    profiled = stats.median([times[number] for number in numbers[:-1] if number in times])
    if profiled is None:
        return ()
    text = (
        f"profiled steps took {profiled / measured_s:.2f} times as long as measured ones "
        f"({profiled:.4g} s against {measured_s:.4g} s)"
    )
    writing = times.get(numbers[-1])
    return (text if writing is None else f"{text}, the step after them, which waits for the file, {writing:.4g} s",)


def _analyze(name: str, spec: RunSpec, run_dir: Path, plugins: Plugins) -> list[Finding]:
    try:
        return [
            finding for answer in plugins.ask(name, "analyze", spec=spec, run_dir=run_dir) or [] for finding in answer
        ]
    except LlmbxError as error:
        # A profile that cannot be analyzed does not invalidate the run's own figures.
        fix = "the run's figures are not affected"
        return [Finding(rule="profiler", problem=f"{name}: {error}", fix=fix, warning=True)]


def _line(finding: Finding) -> str:
    return f"{finding.problem}; {finding.fix}"
