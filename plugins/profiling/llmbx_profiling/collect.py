"""Collect the profiles of a finished run: find missing ones, import unfinished ones, and detect secrets."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path, PurePosixPath
from typing import Any

from llmbx.api import Finding, LlmbxError, RunFile, RunFolder, Value, spell_ranks

from . import nsys_tools
from .analysis import secret_scan, sources
from .names import ENDED_EARLY, FOLDER, parse_name
from .nvtx_package import nvtx_problem

REPORT = ".nsys-rep"
STREAM = ".qdstrm"
SECRETS_SUFFIX = ".contains-secrets"
"""Suffix of the file that marks a profile with a secret: it must not be shared and is excluded from bundles."""


class PhaseProfiles(Value, frozen=True):
    """The profiles of one phase, with findings on missing, unfinished and secret-containing ones."""

    files: tuple[RunFile, ...]
    findings: tuple[Finding, ...]


def collect(run_dir: Path, environ: Mapping[str, str]) -> list[PhaseProfiles]:
    """Collect the profiles of each profiled phase in `run_dir`.

    Imports unfinished reports, and marks reports that contain secrets.
    """
    facts = sources.read_manifest(RunFolder(path=run_dir), FOLDER)
    per_node = int(facts.get("ranks_per_node", 1))
    return [_phase(run_dir, entry, per_node, environ) for entry in facts.get("files", ())]


def _phase(run_dir: Path, entry: dict[str, Any], per_node: int, environ: Mapping[str, str]) -> PhaseProfiles:
    name = PurePosixPath(entry["name"])
    candidates = _candidates(RunFolder(path=run_dir), name, per_node)
    files, findings = _imported(candidates, environ, required=entry.get("required", True))
    # A stream that could not be imported has its own finding: its rank did write a profile.
    missing = _missing_finding(entry, name.name, {file.stem for file in candidates}, per_node, run_dir)
    # The launcher checks the required files of a phase that ran, so those of such a phase need no check here.
    if missing and not entry.get("may_be_skipped"):
        findings.append(missing)
    everything = sorted({*files, *candidates}, key=str)  # a stream is kept beside the report that was imported from it
    findings += [mark_secrets(file, names) for file in everything if (names := secrets_in(file, environ))]
    return PhaseProfiles(files=tuple(files), findings=tuple(findings))


def _candidates(folder: RunFolder, name: PurePosixPath, per_node: int) -> list[RunFile]:
    files = [*folder.glob(f"{name.parent}/*{REPORT}"), *folder.glob(f"{name.parent}/*{STREAM}")]
    return sorted((file for file in files if parse_name(name.name, file.stem, per_node) is not None), key=str)


def _imported(
    candidates: Iterable[RunFile], environ: Mapping[str, str], required: bool
) -> tuple[list[RunFile], list[Finding]]:
    """Return the reports, importing each unfinished one that has no report of the same name."""
    files, findings = [], []
    for file in candidates:
        if file.suffix == REPORT:
            files.append(file)
        elif not (report := file.replace(file=file.file.removesuffix(STREAM) + REPORT)).exists():
            try:
                nsys_tools.import_stream(file.path, environ)
                files.append(report)
            except LlmbxError as error:
                findings.append(
                    Finding(
                        rule="profile_unfinished",
                        problem=str(error),
                        fix=f"to import it: QdstrmImporter --input-file {file}",
                        warning=not required,
                    )
                )
    return files, findings


def _missing_finding(
    entry: dict[str, Any], template: str, stems: Set[str], per_node: int, run_dir: Path
) -> Finding | None:
    ranks: list[int] = entry["ranks"]
    file_ranks = [parse_name(template, stem, per_node) for stem in stems]
    present = {file_rank.rank for file_rank in file_ranks if file_rank is not None and file_rank.rank is not None}
    missing = [rank for rank in ranks if rank not in present] if present else ranks[len(stems) :]
    if not missing:
        return None
    if "rank" not in template and not present:
        who = f"{len(missing)} of {len(ranks)} ranks" if len(ranks) > 1 else f"rank {ranks[0]}"
    else:
        who = f"rank {missing[0]}" if len(missing) == 1 else f"ranks {spell_ranks(missing)}"
    why, fix = _why_missing(entry, missing, run_dir)
    return Finding(
        rule="profile_missing",
        problem=f"{who} wrote no profile of phase {entry['role']}: {why}",
        fix=fix,
        warning=not entry.get("required", True),
    )


def _why_missing(entry: dict[str, Any], missing: Sequence[int], run_dir: Path) -> tuple[str, str]:
    """Return why these ranks wrote no profile, and what to do."""
    start, stop = entry["steps"]
    folder = RunFolder(path=run_dir)
    if ended_early := [rank for rank in missing if folder.file(f"{ENDED_EARLY}{rank}").exists()]:
        ranks = f"rank{'s' if len(ended_early) > 1 else ''} {spell_ranks(ended_early)}"
        return f"nsys ended before the program on {ranks}", "read its last message in the log, and profile again"
    if entry.get("by_range") and (problem := nvtx_problem(run_dir, missing)):
        return problem.explain(f"the capture of steps {start}-{stop} never started"), problem.fix
    return (
        f"the capture of steps {start}-{stop} never started",
        f"check that the run reaches step {start} and that the program starts the capture on that rank",
    )


def mark_secrets(file: RunFile, names: Sequence[str]) -> Finding:
    """Mark a profile that contains the values of these variables, make it private, and return the finding."""
    mark = f"This profile holds the values of: {', '.join(names)}\n"
    RunFolder(path=file.folder).write(file.file + SECRETS_SUFFIX, mark)
    with file.open() as opened:
        os.fchmod(opened.fileno(), 0o600)
    return Finding(
        rule="profile_secret",
        problem=f"{file.name} contains {', '.join(names)}: profiles store the output and environment of a rank",
        fix="it is marked and excluded from bundles; do not share it",
        warning=True,
    )


def secrets_in(file: RunFile, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the secrets whose values occur in the bytes of a file.

    Most of a report is compressed, so only a scan of its export is conclusive (see `analysis.secret_scan`).
    """
    with file.open() as opened:
        if os.fstat(opened.fileno()).st_size == 0:
            return ()
        content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    with content:
        secrets = secret_scan.values(environ).items()
        return tuple(sorted(name for name, value in secrets if content.find(os.fsencode(value)) >= 0))
