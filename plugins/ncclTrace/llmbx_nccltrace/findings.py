"""What the trace of a run says in its report; the whole of it lies beside the log as `nccl.json`."""

from __future__ import annotations

from pathlib import Path

from llmbx.errors import UsageError
from llmbx.files import write_atomic
from llmbx.model import Figure, Finding

from .analysis import read_report
from .render import headline
from .report import Report
from .words import many

NAME = "nccl.json"
_MOST = 5


def findings(run_dir: Path) -> list[Finding]:
    """One finding for what the trace shows, one for each warning; a trace without a line of NCCL's is a warning."""
    import msgspec

    try:
        report = read_report((run_dir,))
    except UsageError as error:
        return [Finding(rule="nccl", problem=f"the trace is empty: {error}", fix="see the run's log", warning=True)]
    write_atomic(run_dir / NAME, msgspec.json.format(msgspec.json.encode(report), indent=2))
    return said(report)


def said(report: Report) -> list[Finding]:
    """The findings of a report, the summary first. All are warnings, for none of them fails a run."""
    texts = ["; ".join(headline(report)), *report.warnings[:_MOST]]
    if (rest := len(report.warnings) - _MOST) > 0:
        texts.append(f"{many(rest, 'more warning')} of the trace")
    return [Finding(rule="nccl", problem=text, fix="llmbx nccl says more", warning=True) for text in texts]


def figures(run_dir: Path) -> list[Figure]:
    """What was communicated in each step, where the log has the steps' lines; nothing where the trace is empty."""
    try:
        report = read_report((run_dir,))
    except UsageError:
        return []
    steps = report.steps or ()
    return [
        Figure(name="communication_volume", unit="bytes", values=tuple(float(s.message_bytes) for s in steps)),
        Figure(name="communication_calls", unit="calls", values=tuple(float(s.calls) for s in steps)),
    ]
