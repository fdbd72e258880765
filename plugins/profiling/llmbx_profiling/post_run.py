"""Findings after a profiled run: missing profiles, and a summary of the profiles if they are small."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import Finding, LlmbxError, RunFile, RunFolder, Section, format_bytes

from . import nsys_tools
from .analysis import sources
from .analysis.model import Analysis
from .collect import SECRETS_SUFFIX, collect, mark_secrets
from .names import FOLDER
from .nsys_wrap import TOOL
from .nvtx_package import nvtx_problem
from .settings import tool_environ

if TYPE_CHECKING:
    from llmbx.api import Evidence

MAX_ANALYZED_BYTES = 64_000_000
"""Maximum bytes of reports that are analyzed when a run ends; larger ones are analyzed on request."""

ANALYSIS = f"{FOLDER}/analysis.json"


def of_run(evidence: Evidence) -> list[Finding]:
    """Return the findings on a run's profiles.

    A profile that the recipe needs, and the user did not ask for, is checked and not summarized.
    """
    spec, run_dir = evidence.spec, evidence.run_dir
    assert spec is not None and run_dir is not None
    environ = tool_environ(spec, os.environ)
    requested = spec.profile is not None and spec.profile.tool == TOOL
    return findings(run_dir, environ) if requested else collected(run_dir, environ)[1]


def findings(run_dir: Path, environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """Return all findings on the profiles of the run in `run_dir`. Writes `analysis.json` next to the profiles."""
    files, collection = collected(run_dir, environ)
    if not files:
        return collection
    size = sum(status.st_size for file in files if (status := file.status()))
    if size > MAX_ANALYZED_BYTES or nsys_tools.find(environ) is None:
        why = f"{format_bytes(size)} of profiles" if size > MAX_ANALYZED_BYTES else "nsys not found on this machine"
        return [
            *collection,
            _finding(
                "profile_unread", f"the profiles were not analyzed ({why})", f"to analyze them: llmbx nsys {run_dir}"
            ),
        ]
    return [*collection, *_analyze(run_dir, files, environ)]


def collected(run_dir: Path, environ: Mapping[str, str] = os.environ) -> tuple[list[RunFile], list[Finding]]:
    """Return the profiles of the run in `run_dir`, and findings on missing, unfinished and secret-containing ones."""
    phases = collect(run_dir, environ)
    return [file for phase in phases for file in phase.files], [f for phase in phases for f in phase.findings]


def sections(run_dir: Path) -> tuple[Section, ...]:
    """Return the report section of a run's profiles from its `analysis.json`, or one that says how to analyze them."""
    from msgspec import DecodeError, json

    from .analysis.sections import section

    try:
        analysis = json.decode(RunFolder(path=run_dir).read(ANALYSIS), type=Analysis)
    except (OSError, DecodeError):
        text = f"The profiles were not analyzed at the end of the run. To analyze them: `llmbx nsys {run_dir}`"
        return (Section(name="nsys", title="Step time breakdown (Nsight Systems)", text=(text,)),)
    return (section(analysis),)


def _analyze(run_dir: Path, files: Sequence[RunFile], environ: Mapping[str, str]) -> list[Finding]:
    from msgspec import json

    from .analysis.analyze import analyze

    try:
        analysis = analyze(files, environ=environ)
    except LlmbxError as error:
        return [_finding("profile_unread", str(error), f"to retry: llmbx nsys {run_dir}", warning=False)]
    folder, by_path = RunFolder(path=run_dir), {str(file): file for file in files}
    with_secrets = [(by_path[source.path], source.secrets) for source in analysis.files if source.secrets]
    unmarked = [pair for pair in with_secrets if not folder.file(pair[0].file + SECRETS_SUFFIX).exists()]
    marked = [mark_secrets(file, names) for file, names in unmarked]
    folder.write(ANALYSIS, json.format(json.encode(analysis), indent=2) + b"\n")
    return [
        *marked,
        *check_steps(analysis, sources.read_manifest(folder, FOLDER).get("files", ())),
        *check_ranges(analysis, run_dir),
        *summary(analysis, run_dir),
    ]


def check_steps(analysis: Analysis, expected: Iterable[Mapping[str, object]]) -> list[Finding]:
    """Check that the profiles contain exactly the requested steps, if their steps are numbered."""
    requested = {step for entry in expected for step in range(*entry["steps"])}  # type: ignore[misc]
    findings = []
    for rank in analysis.ranks:
        steps = {step.step for step in analysis.steps if step.label == rank.label and step.step is not None}
        if steps and steps != requested:
            text = ", ".join(map(str, sorted(steps)))
            problem = (
                f"the profile of {rank.label} contains steps {text} instead of the {len(requested)} requested steps"
            )
            findings.append(_finding("profile_steps", problem, "check its log around the first of these steps"))
    if not analysis.ranks:
        problem = "the profiles contain no steps and no GPU activity"
        findings.append(
            _finding("profile_empty", problem, "run it again; nsys occasionally writes an empty report", warning=False)
        )
    return findings


def check_ranges(analysis: Analysis, run_dir: Path) -> list[Finding]:
    """Check that the profile of each rank has step ranges, and name the rank's nvtx if it explains that it has none."""
    numbered = {step.label for step in analysis.steps if step.step is not None}
    unnumbered = [rank for rank in analysis.ranks if rank.label not in numbered]
    problem = nvtx_problem(run_dir, [rank.rank for rank in unnumbered if rank.rank is not None])
    if problem is None:
        return []
    return [_finding("profile_ranges", problem.explain("the profiles have no step ranges"), problem.fix)]


def summary(analysis: Analysis, run_dir: Path) -> list[Finding]:
    """Return a one-line summary of exposed communication; empty for a profile without GPU activity."""
    if analysis.exposed_share is None or analysis.ceiling is None:
        return []
    problem = f"{analysis.exposed_share:.1%} of the profiled time is exposed communication"
    gain = f"upper bound on the speed-up without it: {analysis.ceiling.speedup:.2f}x"
    return [_finding("profile", problem, f"{gain}; details: llmbx nsys {run_dir}")]


def _finding(rule: str, problem: str, fix: str, warning: bool = True) -> Finding:
    return Finding(rule=rule, problem=problem, fix=fix, warning=warning)
