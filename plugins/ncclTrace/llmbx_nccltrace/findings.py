"""Findings and figures of a traced run; the full report is written to `nccl.json` in the run folder."""

from __future__ import annotations

from pathlib import Path

from llmbx.api import Figure, Finding, InfraError, RunFolder, UsageError, plural

from .analysis import read_report
from .render import headline
from .report import Report

NAME = "nccl.json"
_MAX_LISTED = 5


def findings(run_dir: Path) -> list[Finding]:
    """Analyze the trace and return its summary and warnings; a trace without NCCL lines is reported as a warning."""
    import msgspec

    try:
        report = read_report((run_dir,))
    except UsageError as error:
        return [Finding(rule="nccl", problem=f"the trace is empty: {error}", fix="check the run's log", warning=True)]
    except InfraError as error:
        return [Finding(rule="nccl", problem=f"the trace was not read: {error}", fix="see llmbx nccl", warning=True)]
    RunFolder(path=run_dir).write(NAME, msgspec.json.format(msgspec.json.encode(report), indent=2))
    return to_findings(report)


def to_findings(report: Report) -> list[Finding]:
    """Return the findings of a report, the summary first. All are warnings, since none of them fails a run."""
    texts = ["; ".join(headline(report)), *report.warnings[:_MAX_LISTED]]
    if (hidden := len(report.warnings) - _MAX_LISTED) > 0:
        texts.append(f"{plural(hidden, 'more warnings')} in the trace")
    return [Finding(rule="nccl", problem=text, fix="see llmbx nccl for details", warning=True) for text in texts]


def figures(run_dir: Path) -> list[Figure]:
    """Return the bytes and calls of each step. The values are empty if the log has no step lines.

    A log without NCCL lines has no figures.
    """
    try:
        report = read_report((run_dir,))
    except UsageError:
        return []
    steps = report.steps or ()
    return [
        Figure(name="communication_volume", unit="bytes", values=tuple(float(s.message_bytes) for s in steps)),
        Figure(name="communication_calls", unit="calls", values=tuple(float(s.calls) for s in steps)),
    ]
