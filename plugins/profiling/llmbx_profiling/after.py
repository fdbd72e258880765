"""What is said after a profiled run: what is missing, and, where the profiles are small, what they show."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from llmbx.errors import LlmbxError
from llmbx.files import write_atomic
from llmbx.model import Finding, Section

from . import tools
from .analysis import sources
from .analysis.values import Analysis
from .collect import MARK, collect, mark
from .names import FOLDER
from .sizes import human

SMALL = 64_000_000
"""Bytes of reports that are read at once when a run ends; larger ones wait until somebody asks for them."""

ANALYSIS = f"{FOLDER}/analysis.json"


def findings(run_dir: Path) -> list[Finding]:
    """Every finding on the profiles of the run in `run_dir`. Writes `analysis.json` beside them."""
    found = collect(run_dir, os.environ)
    said = [finding for phase in found for finding in phase.findings]
    files = [file for phase in found for file in phase.files]
    if not files:
        return said
    size = sum(file.stat().st_size for file in files)
    if size > SMALL or tools.find(os.environ) is None:
        why = f"{human(size)} of profiles" if size > SMALL else "nsys is not on this machine"
        return [
            *said,
            _note("profile_unread", f"the profiles were not read ({why})", f"llmbx nsys {run_dir} reads them"),
        ]
    return [*said, *_read(run_dir, files)]


def sections(run_dir: Path) -> tuple[Section, ...]:
    """What a report says of the run's profiles, from the analysis that its end left; without one, how to get it."""
    from msgspec import DecodeError, json

    from .analysis.sections import section

    try:
        analysis = json.decode((run_dir / ANALYSIS).read_bytes(), type=Analysis)
    except (OSError, DecodeError):
        text = f"The profiles were not read when the run ended: `llmbx nsys {run_dir}` reads them."
        return (Section(name="nsys", title="Where the time of a step went (Nsight Systems)", text=(text,)),)
    return (section(analysis),)


def _read(run_dir: Path, files: Sequence[Path]) -> list[Finding]:
    from msgspec import json

    from .analysis.analyze import analyze

    try:
        analysis = analyze(files)
    except LlmbxError as error:
        return [_note("profile_unread", str(error), f"llmbx nsys {run_dir} tries again", warning=False)]
    holding = [source for source in analysis.files if source.secrets and not Path(source.path + MARK).exists()]
    marked = [mark(Path(source.path), source.secrets) for source in holding]
    write_atomic(run_dir / ANALYSIS, json.format(json.encode(analysis), indent=2) + b"\n")
    return [
        *marked,
        *check_steps(analysis, sources.asked(run_dir / FOLDER).get("files", ())),
        *summary(analysis, run_dir),
    ]


def check_steps(analysis: Analysis, asked: Iterable[Mapping[str, object]]) -> list[Finding]:
    """Whether the profiles hold the steps that were asked for and no others, where their steps carry numbers."""
    wanted = {step for entry in asked for step in range(*entry["steps"])}  # type: ignore[misc]
    found = []
    for rank in analysis.ranks:
        steps = {step.step for step in analysis.steps if step.label == rank.label and step.step is not None}
        if steps and steps != wanted:
            text = ", ".join(map(str, sorted(steps)))
            problem = f"the profile of {rank.label} holds steps {text}, not the {len(wanted)} that were asked for"
            found.append(_note("profile_steps", problem, "see its log around the first of them"))
    if not analysis.ranks:
        problem = "the profiles hold neither a step nor any GPU activity"
        found.append(_note("profile_empty", problem, "run it again; nsys rarely writes an empty report", warning=False))
    return found


def summary(analysis: Analysis, run_dir: Path) -> list[Finding]:
    """One line on what the profile shows of the GPUs; nothing for a profile of the CPU alone."""
    if analysis.exposed_share is None or analysis.ceiling is None:
        return []
    problem = f"{analysis.exposed_share:.1%} of the profiled time is communication that no computation hides"
    gain = f"without it a step could be {analysis.ceiling.speedup:.2f} times as fast at most"
    return [_note("profile", problem, f"{gain}; llmbx nsys {run_dir} says more")]


def _note(rule: str, problem: str, fix: str, warning: bool = True) -> Finding:
    return Finding(rule=rule, problem=problem, fix=fix, warning=warning)
