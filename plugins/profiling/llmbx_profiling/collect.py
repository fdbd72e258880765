"""After the run: is every profile there, is it whole, does it hold what was asked, and does it hold a secret."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llmbx.errors import LlmbxError
from llmbx.files import write_atomic
from llmbx.model import Finding, Value
from llmbx.ranks import spell
from llmbx.secrets import is_secret

from . import tools
from .analysis import sources
from .names import FOLDER, place

REPORT = ".nsys-rep"
STREAM = ".qdstrm"
MARK = ".contains-secrets"
"""A file of this ending beside a profile: it holds a secret and must not leave the machine, in no bundle either."""

_VARIABLE = re.compile(rb"([A-Z][A-Z0-9_]{2,60})=[^\0\s]{8,}")
_SHORTEST = 8
"""Shorter values occur by chance."""


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
    findings += [finding for file in files for finding in mark_secrets(file, environ)]
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


def mark_secrets(file: Path, environ: Mapping[str, str]) -> list[Finding]:
    """A warning, and a mark beside the file, when a secret's value is in it: by `environ`, or by a variable's name."""
    names = sorted(secrets_in(file, environ))
    if not names:
        return []
    mark = file.with_name(file.name + MARK)
    write_atomic(mark, f"This profile holds the values of: {', '.join(names)}\n")
    file.chmod(0o600)
    return [
        Finding(
            rule="profile_secret",
            problem=f"{file.name} holds {', '.join(names)}: a profile stores what a rank prints and is started with",
            fix="it is marked and never bundled; keep it to yourself",
            warning=True,
        )
    ]


def secrets_in(file: Path, environ: Mapping[str, str]) -> set[str]:
    """Names of the variables whose secret values the file holds."""
    if file.stat().st_size == 0:
        return set()
    values = {
        name: os.fsencode(value) for name, value in environ.items() if is_secret(name) and len(value) >= _SHORTEST
    }
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = {name for name, value in values.items() if content.find(value) >= 0}
        named = {match[1].decode() for match in _VARIABLE.finditer(content)}
    return found | {name for name in named if is_secret(name)}
