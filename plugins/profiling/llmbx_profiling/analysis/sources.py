"""Which files are meant, and which rank wrote each."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llmbx.errors import UsageError

from ..names import FOLDER, Place, place

ENDINGS = (".sqlite", ".nsys-rep")
_WORDS = re.compile(r"(?:^|[._-])(node|local_?rank|rank)[._-]?(\d+)(?![a-z0-9])", re.IGNORECASE)


def find(paths: Sequence[Path]) -> list[Path]:
    """The profiles that `paths` (files and folders) mean, each once, in the order of their names.

    A report and its export count once: the export, unless the report is newer. A folder is a run's, its
    `nsys_profile`, or any other. Raises `UsageError` where there is nothing to read.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = [file for ending in ENDINGS for file in path.rglob(f"*{ending}")]
            if not inside:
                raise UsageError(f"{path}: no profile in this folder ({' or '.join(ENDINGS)})")
            found += inside
        elif not path.exists():
            raise UsageError(f"{path}: no such file")
        elif path.suffix in ENDINGS:
            found.append(path)
        elif path.suffix == ".qdstrm":
            raise UsageError(f"{path} is an unfinished report: QdstrmImporter --input-file {path.name} finishes it")
        else:
            raise UsageError(f"{path}: expected a report ({' or '.join(ENDINGS)}) or a folder of them")
    return sorted(_once(found), key=_natural)


def _once(found: Sequence[Path]) -> list[Path]:
    kept: dict[Path, Path] = {}
    for path in found:
        key = path.absolute().with_suffix("")
        other = kept.get(key)
        if other is None or other.suffix == path.suffix or _fresher(path, other):
            kept[key] = path
    return list(kept.values())


def _fresher(path: Path, other: Path) -> bool:
    """Whether `path` is the one to read: an export that is not older than its report, else the report."""
    export, report = (path, other) if path.suffix == ".sqlite" else (other, path)
    current = export.stat().st_mtime >= report.stat().st_mtime
    return path is (export if current else report)


def _natural(path: Path) -> list[tuple[int, int | str]]:
    parts = re.split(r"(\d+)", str(path))
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


def places(files: Sequence[Path]) -> list[Place]:
    """Whose each file is: by what the run asked for (`asked.json` beside it), else by words in its name."""
    known: dict[Path, dict[str, Any]] = {}
    found = []
    for file in files:
        if file.parent not in known:
            known[file.parent] = asked(file.parent)
        found.append(_asked_place(file, known[file.parent]) or _named_place(file.stem))
    return found


def asked(folder: Path) -> dict[str, Any]:
    """What a run asked for in this folder; empty where nothing says."""
    try:
        facts = json.loads((folder / "asked.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) and isinstance(facts.get("files"), list) else {}


def _asked_place(file: Path, facts: dict[str, Any]) -> Place | None:
    for entry in facts.get("files", ()):
        name = str(entry.get("name", ""))
        stem = name.removeprefix(f"{FOLDER}/") if file.parent.name == FOLDER else Path(name).name
        whose = place(stem, file.stem, int(facts.get("ranks_per_node", 1)))
        if whose is not None:
            only = entry.get("ranks", ())
            return Place(rank=only[0]) if whose.rank is None and len(only) == 1 else whose
    return None


def _named_place(stem: str) -> Place:
    """`…_node1_rank9`, `rank-3`: only what the name says in words; two bare numbers could mean anything."""
    given = {word.lower().replace("localrank", "local_rank"): int(number) for word, number in _WORDS.findall(stem)}
    return Place(**given)
