"""The cache of PGLE profiles: validation, and atomic publication.

The folder of a profile contains the table of costs, or the programs that JAX compiled with the costs, and `key.json`
with the identity of the profile, the step time of the collect phase, and the size and checksum of each file. A new
profile is published by renaming its complete folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections import Counter
from pathlib import Path
from typing import Any

KEY = "key.json"

COST = re.compile(rb'costs\s*\{\s*name:\s*"[^"]+"\s+cost_us:\s*[0-9.eE+-]+\s*\}')
PROGRAM = re.compile(r"(?P<module>.+)-[0-9a-f]{64}-cache")


def problem(profile: dict[str, Any], thorough: bool = True) -> str | None:
    """Return why the cached profile cannot be used; None if it is valid. With `thorough`, checksums are verified."""
    folder = Path(profile["folder"])
    try:
        key = json.loads((folder / KEY).read_text(encoding="utf-8"))
        files = {folder / name: (size, checksum) for name, (size, checksum) in key["files"].items()}
        facts = key["facts"]
    except FileNotFoundError:
        return f"{KEY} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"{KEY} cannot be read"
    if facts != profile["facts"]:
        return f"it belongs to another configuration (different: {difference(facts, profile['facts'])})"
    for file, (size, checksum) in files.items():
        if not file.is_file():
            return f"{file.name} is missing"
        if file.stat().st_size != size or (thorough and digest(file) != checksum):
            return f"{file.name} is damaged"
    return None if not thorough or count(profile, folder / profile["content"]) else "it is empty"


def count(profile: dict[str, Any], content: Path) -> int:
    """Return the number of operations with a cost, or of programs that were compiled with costs.

    JAX stores a program that was compiled with costs next to the first build of the same program.
    """
    if profile["mode"] != "jax":
        return len(COST.findall(content.read_bytes())) if content.is_file() else 0
    names = [file.name for file in content.iterdir()] if content.is_dir() else []
    builds = Counter(match["module"] for name in names if (match := PROGRAM.fullmatch(name)))
    return sum(1 for number in builds.values() if number > 1)


def build_folder(profile: dict[str, Any]) -> Path:
    """Create and return an empty folder next to the profile's own, in which to build the profile.

    The umask of ranks denies the group to write. In an install that a group shares, all of it store profiles.
    """
    folder = Path(profile["folder"]).with_name(f".{profile['digest']}.{os.getpid()}")
    shutil.rmtree(folder, ignore_errors=True)
    home = folder.parent
    home.mkdir(parents=True, exist_ok=True)
    if home.stat().st_uid == os.geteuid():
        home.chmod(home.stat().st_mode | home.parent.stat().st_mode & stat.S_IWGRP)
    folder.mkdir()
    return folder


def step_time(folder: Path) -> float | None:
    """Return the step time of the collect phase in seconds; None if it is not stored."""
    seconds = json.loads((folder / KEY).read_text(encoding="utf-8")).get("step_time_s")
    return None if seconds is None else float(seconds)


def publish(profile: dict[str, Any], made: Path, step_time_s: float | None = None) -> None:
    """Write `key.json` into the folder `made` and rename it to the profile's folder.

    A valid profile that another run has published in the meantime is not replaced. `step_time_s` is the step time of
    the collect phase.
    """
    files = {str(file.relative_to(made)): [file.stat().st_size, digest(file)] for file in contents(made)}
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    key = {"facts": profile["facts"], "made": when, "step_time_s": step_time_s, "files": files}
    (made / KEY).write_text(json.dumps(key, indent=1) + "\n", encoding="utf-8")
    folder = Path(profile["folder"])
    if folder.exists():
        if problem(profile) is None:
            shutil.rmtree(made)
            return
        quarantine(folder)
    made.rename(folder)


def quarantine(folder: Path) -> Path:
    """Rename the folder of an unusable profile to `<name>.bad-<time in µs>`, and return the new path."""
    renamed = folder.with_name(f"{folder.name}.bad-{time.time_ns() // 1000}")
    folder.rename(renamed)
    return renamed


def difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """Return the names of the facts that differ."""
    return ", ".join(sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name)))


def contents(folder: Path) -> list[Path]:
    """Return every file below `folder`."""
    return sorted(file for file in folder.rglob("*") if file.is_file())


def digest(file: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    sha256 = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            sha256.update(chunk)
    return sha256.hexdigest()
