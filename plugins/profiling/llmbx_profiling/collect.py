"""After the run: is every profile there, is it whole, does it hold what was asked, and does it hold a secret."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llmbx.errors import LlmbxError
from llmbx.files import write_atomic
from llmbx.model import Finding, Value
from llmbx.resolve.ranks import spell

from . import tools
from .analysis import hidden, sources
from .names import FOLDER, place

REPORT = ".nsys-rep"
STREAM = ".qdstrm"
MARK = ".contains-secrets"
"""A file of this ending beside a profile: it holds a secret and must not leave the machine, in no bundle either."""


class Found(Value, frozen=True):
    """The profiles of one phase that are there, and what is wrong with them or with those that are not."""

    files: tuple[Path, ...]
    findings: tuple[Finding, ...]


def collect(run_dir: Path, environ: Mapping[str, str]) -> list[Found]:
    """What every profiled phase of the run in `run_dir` left. Imports unfinished reports, marks those with secrets."""
    facts = sources.asked(run_dir / FOLDER)
    per_node = int(facts.get("ranks_per_node", 1))
    return [_phase(run_dir, entry, per_node, environ) for entry in facts.get("files", ())]


def _phase(run_dir: Path, entry: dict[str, Any], per_node: int, environ: Mapping[str, str]) -> Found:
    name = Path(entry["name"])
    files, findings = _imported(_candidates(run_dir / name.parent, name.name, per_node), environ)
    missing = _missing(entry, name.name, files, per_node)
    if missing:
        findings.append(missing)
    findings += [mark(file, names) for file in files if (names := secrets_in(file, environ))]
    return Found(files=tuple(files), findings=tuple(findings))


def _candidates(folder: Path, template: str, per_node: int) -> list[Path]:
    found = [*folder.glob(f"*{REPORT}"), *folder.glob(f"*{STREAM}")]
    return sorted(file for file in found if place(template, file.stem, per_node) is not None)


def _imported(candidates: Iterable[Path], environ: Mapping[str, str]) -> tuple[list[Path], list[Finding]]:
    """Reports, with every unfinished one finished where no report of its name is there."""
    files, findings = [], []
    for file in candidates:
        if file.suffix == REPORT:
            files.append(file)
        elif not file.with_suffix(REPORT).exists():
            try:
                files.append(tools.import_stream(file, environ))
            except LlmbxError as error:
                findings.append(Finding(rule="profile_unfinished", problem=str(error), fix="then run this again"))
    return files, findings


def _missing(entry: dict[str, Any], template: str, files: Sequence[Path], per_node: int) -> Finding | None:
    ranks: list[int] = entry["ranks"]
    start, stop = entry["steps"]
    whose = [place(template, file.stem, per_node) for file in files]
    there = {found.rank for found in whose if found is not None and found.rank is not None}
    gone = [rank for rank in ranks if rank not in there] if there else ranks[len(files) :]
    if not gone:
        return None
    if "rank" not in template and not there:
        who = f"{len(gone)} of {len(ranks)} ranks" if len(ranks) > 1 else f"rank {ranks[0]}"
    else:
        who = f"rank {gone[0]}" if len(gone) == 1 else f"ranks {spell(gone)}"
    return Finding(
        rule="profile_missing",
        problem=f"{who} left no profile of phase {entry['role']}: the capture of steps {start}-{stop} never started",
        fix=f"see that the run reaches step {start} and that its program starts the capture on that rank",
        warning=not entry.get("required", True),
    )


def mark(file: Path, names: Sequence[str]) -> Finding:
    """Mark a profile that holds these variables' values, and close it to others; what is to be said of it."""
    write_atomic(file.with_name(file.name + MARK), f"This profile holds the values of: {', '.join(names)}\n")
    file.chmod(0o600)
    return Finding(
        rule="profile_secret",
        problem=f"{file.name} holds {', '.join(names)}: a profile stores what a rank prints and is started with",
        fix="it is marked and never bundled; keep it to yourself",
        warning=True,
    )


def secrets_in(file: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the secrets whose values are in the bytes of a file. A report compresses most of what it holds, so that
    finding none proves nothing: its export does (see `analysis.hidden`)."""
    if file.stat().st_size == 0:
        return ()
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        wanted = hidden.values(environ).items()
        return tuple(sorted(name for name, value in wanted if content.find(os.fsencode(value)) >= 0))
