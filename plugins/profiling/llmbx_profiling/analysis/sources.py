"""Find profile files, and the rank that wrote each."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from llmbx.api import UsageError

from ..names import FOLDER, FileRank, parse_name

ENDINGS = (".sqlite", ".nsys-rep")
_WORDS = re.compile(r"(?:^|[._-])(node|local_?rank|rank)[._-]?(\d+)(?![a-z0-9])", re.IGNORECASE)


def find(paths: Sequence[Path]) -> list[Path]:
    """Return the profiles in `paths` (files and folders), each once, sorted by name.

    Of a report and its export, only the export is returned, unless the report is newer. Folders are searched
    recursively. Raises `UsageError` if a path is not a profile or a folder contains none.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = [file for file in files_below(path) if file.suffix in ENDINGS]
            if not inside:
                raise UsageError(f"{path}: no profile in this folder ({' or '.join(ENDINGS)})")
            found += inside
        elif not path.exists():
            raise UsageError(f"{path}: no such file")
        elif path.suffix in ENDINGS:
            found.append(path)
        elif path.suffix == ".qdstrm":
            raise UsageError(f"{path} is an unfinished report. To import it: QdstrmImporter --input-file {path.name}")
        else:
            raise UsageError(f"{path}: expected a report ({' or '.join(ENDINGS)}) or a folder of them")
    return sorted(_deduplicated(found), key=_natural)


def files_below(folder: Path) -> Iterator[Path]:
    """The files in a folder and its subfolders.

    A subfolder may disappear meanwhile: nsys removes its temporary folders some time after the run has ended.
    """
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names)


def _deduplicated(found: Sequence[Path]) -> list[Path]:
    chosen: dict[Path, Path] = {}
    for path in found:
        key = path.absolute().with_suffix("")
        other = chosen.get(key)
        if other is None or other.suffix == path.suffix or _is_preferred(path, other):
            chosen[key] = path
    return list(chosen.values())


def _is_preferred(path: Path, other: Path) -> bool:
    """Whether to read `path` instead of `other`: the export if it is not older than its report, else the report."""
    export, report = (path, other) if path.suffix == ".sqlite" else (other, path)
    current = export.stat().st_mtime >= report.stat().st_mtime
    return path is (export if current else report)


def _natural(path: Path) -> list[tuple[int, int | str]]:
    parts = re.split(r"(\d+)", str(path))
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


def file_ranks(files: Sequence[Path]) -> list[FileRank]:
    """Return the rank of each file: from `expected.json` in its folder, else from its name."""
    known: dict[Path, dict[str, Any]] = {}
    found = []
    for file in files:
        if file.parent not in known:
            known[file.parent] = read_manifest(file.parent)
        found.append(_rank_from_manifest(file, known[file.parent]) or _rank_from_name(file.stem))
    return found


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the `expected.json` of a run's profiles; empty if it is missing or not valid."""
    for name in ("expected.json", "asked.json"):  # older runs have the second
        try:
            facts = json.loads((folder / name).read_bytes())
            break
        except (OSError, ValueError):
            facts = {}
    return facts if isinstance(facts, dict) and isinstance(facts.get("files"), list) else {}


def _rank_from_manifest(file: Path, facts: dict[str, Any]) -> FileRank | None:
    for entry in facts.get("files", ()):
        name = str(entry.get("name", ""))
        stem = name.removeprefix(f"{FOLDER}/") if file.parent.name == FOLDER else Path(name).name
        file_rank = parse_name(stem, file.stem, int(facts.get("ranks_per_node", 1)))
        if file_rank is not None:
            ranks = entry.get("ranks", ())
            return FileRank(rank=ranks[0]) if file_rank.rank is None and len(ranks) == 1 else file_rank
    return None


def _rank_from_name(stem: str) -> FileRank:
    """Parse `…_node1_rank9` or `rank-3`; numbers without such a word are ambiguous and ignored."""
    fields = {word.lower().replace("localrank", "local_rank"): int(number) for word, number in _WORDS.findall(stem)}
    return FileRank(**fields)
