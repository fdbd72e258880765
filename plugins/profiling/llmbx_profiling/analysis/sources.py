"""Find profile files, and the rank that wrote each."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llmbx.api import RunFile, RunFolder, UsageError

from ..names import FOLDER, FileRank, parse_name

ENDINGS = (".sqlite", ".nsys-rep")
_WORDS = re.compile(r"(?:^|[._-])(node|local_?rank|rank)[._-]?(\d+)(?![a-z0-9])", re.IGNORECASE)


Profile = Path | RunFile
"""A profile that the user named, or one in a folder: there links are not followed."""


def find(paths: Sequence[Profile]) -> list[Profile]:
    """Return the profiles in `paths` (files and folders), each once, sorted by name.

    Of a report and its export, only the export is returned, unless the report is newer. Folders are searched
    recursively. Raises `UsageError` if a path is not a profile or a folder contains none.
    """
    profiles: list[Profile] = []
    for path in paths:
        if isinstance(path, Path) and path.is_dir():
            profiles += profiles_in(RunFolder(path=path))
        elif not path.exists():
            raise UsageError(f"{path}: no such file")
        elif path.suffix in ENDINGS:
            profiles.append(path)
        elif path.suffix == ".qdstrm":
            raise UsageError(f"{path} is an unfinished report. To import it: QdstrmImporter --input-file {path.name}")
        else:
            raise UsageError(f"{path}: expected a report ({' or '.join(ENDINGS)}) or a folder of them")
    return sorted(_deduplicated(profiles), key=_natural)


def profiles_in(folder: RunFolder, below: str = "") -> list[RunFile]:
    """The profiles in a folder, or in its folder `below`. Raises `UsageError` if there is none."""
    inside = [file for file in folder.all_files() if file.suffix in ENDINGS and file.file.startswith(below)]
    if not inside:
        raise UsageError(f"{folder.path / below}: no profile in this folder ({' or '.join(ENDINGS)})")
    return inside


def size(file: Profile) -> int:
    """Bytes of a profile; 0 if it is gone."""
    return status.st_size if (status := _status(file)) else 0


def _status(file: Profile) -> os.stat_result | None:
    return file.status() if isinstance(file, RunFile) else file.stat()


def _deduplicated(found: Sequence[Profile]) -> list[Profile]:
    chosen: dict[Path, Profile] = {}
    for path in found:
        key = Path(str(path)).absolute().with_suffix("")
        other = chosen.get(key)
        if other is None or other.suffix == path.suffix or _is_preferred(path, other):
            chosen[key] = path
    return list(chosen.values())


def _is_preferred(path: Profile, other: Profile) -> bool:
    """Whether to read `path` instead of `other`: the export if it is not older than its report, else the report."""
    export, report = (path, other) if path.suffix == ".sqlite" else (other, path)
    of_export, of_report = _status(export), _status(report)
    current = of_export is not None and (of_report is None or of_export.st_mtime >= of_report.st_mtime)
    return path is (export if current else report)


def _natural(path: Profile) -> list[tuple[int, int | str]]:
    parts = re.split(r"(\d+)", str(path))
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


def file_ranks(files: Sequence[Profile]) -> list[FileRank]:
    """Return the rank of each file: from `expected.json` in its folder, else from its name."""
    manifests: dict[Path, dict[str, Any]] = {}
    ranks = []
    for file in files:
        folder = Path(str(file)).parent
        if folder not in manifests:
            inside = (RunFolder(path=file.folder), file.file) if isinstance(file, RunFile) else None
            manifests[folder] = read_manifest(*_above(*inside)) if inside else read_manifest(RunFolder(path=folder))
        ranks.append(_rank_from_manifest(file, manifests[folder]) or _rank_from_name(file.stem))
    return ranks


def _above(folder: RunFolder, name: str) -> tuple[RunFolder, str]:
    return folder, name.rpartition("/")[0]


def read_manifest(folder: RunFolder, below: str = "") -> dict[str, Any]:
    """Read the `expected.json` of a run's profiles; empty if it is missing or not valid."""
    try:
        facts: Any = json.loads(folder.read(f"{below}/expected.json" if below else "expected.json"))
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) and isinstance(facts.get("files"), list) else {}


def _rank_from_manifest(file: Profile, facts: dict[str, Any]) -> FileRank | None:
    for entry in facts.get("files", ()):
        name = str(entry.get("name", ""))
        stem = name.removeprefix(f"{FOLDER}/") if Path(str(file)).parent.name == FOLDER else Path(name).name
        file_rank = parse_name(stem, file.stem, int(facts.get("ranks_per_node", 1)))
        if file_rank is not None:
            ranks = entry.get("ranks", ())
            return FileRank(rank=ranks[0]) if file_rank.rank is None and len(ranks) == 1 else file_rank
    return None


def _rank_from_name(stem: str) -> FileRank:
    """Parse `…_node1_rank9` or `rank-3`; numbers without such a word are ambiguous and ignored."""
    fields = {word.lower().replace("localrank", "local_rank"): int(number) for word, number in _WORDS.findall(stem)}
    return FileRank(**fields)
