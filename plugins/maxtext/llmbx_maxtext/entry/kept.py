"""A kept PGLE profile: what makes it valid, how it is published so that no one ever sees half of it.

Its folder holds the content (a table of costs, or the programs that JAX compiled with it) and `key.json`: what it
belongs to, what a step took meanwhile, and the size and checksum of each file. The folder appears whole, by one rename.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

KEY = "key.json"

COST = re.compile(rb'costs\s*\{\s*name:\s*"[^"]+"\s+cost_us:\s*[0-9.eE+-]+\s*\}')
PROGRAM = re.compile(r"(?P<module>.+)-[0-9a-f]{64}-cache")


def problem(profile: dict[str, Any], thorough: bool = True) -> str | None:
    """Why the kept profile cannot be used, in a few words; None when it can. `thorough` reads every byte of it."""
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
        return f"it belongs to another run ({difference(facts, profile['facts'])})"
    for file, (size, checksum) in files.items():
        if not file.is_file():
            return f"{file.name} is missing"
        if file.stat().st_size != size or (thorough and digest(file) != checksum):
            return f"{file.name} is damaged"
    return None if not thorough or count(profile, folder / profile["content"]) else "it is empty"


def count(profile: dict[str, Any], content: Path) -> int:
    """How much the content tells: operations with a cost, or programs that were compiled with one.

    JAX keeps a program that was compiled with its costs beside the first build of the same program.
    """
    if profile["road"] != "jax":
        return len(COST.findall(content.read_bytes())) if content.is_file() else 0
    names = [file.name for file in content.iterdir()] if content.is_dir() else []
    builds = Counter(match["module"] for name in names if (match := PROGRAM.fullmatch(name)))
    return sum(1 for number in builds.values() if number > 1)


def workshop(profile: dict[str, Any]) -> Path:
    """A new folder beside the profile's own, to make it in."""
    folder = Path(profile["folder"]).with_name(f".{profile['digest']}.{os.getpid()}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def step_time(folder: Path) -> float | None:
    """Seconds a step when the profile was collected; None where it does not tell."""
    found = json.loads((folder / KEY).read_text(encoding="utf-8")).get("step_time_s")
    return None if found is None else float(found)


def publish(profile: dict[str, Any], made: Path, step_time_s: float | None = None) -> None:
    """Give the folder `made` its key and its place. A valid profile that another run published meanwhile stays.

    `step_time_s` is what a step took when it was collected.
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
        put_aside(folder)
    made.rename(folder)


def put_aside(folder: Path) -> Path:
    """Rename a folder that is no use, to be looked at; the name says when."""
    aside = folder.with_name(f"{folder.name}.bad-{time.time_ns() // 1000}")
    folder.rename(aside)
    return aside


def difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """The names of the facts that differ."""
    return ", ".join(sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))) + " differ"


def contents(folder: Path) -> list[Path]:
    """Every file below `folder`."""
    return sorted(file for file in folder.rglob("*") if file.is_file())


def digest(file: Path) -> str:
    """sha256 of a file's bytes, in hex."""
    found = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            found.update(chunk)
    return found.hexdigest()
