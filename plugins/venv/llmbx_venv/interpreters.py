"""Finding a Python interpreter that an environment fits, by running it: a name on PATH may be a shim that fails."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from llmbx.errors import InfraError
from llmbx.model import Value

_PROBE = "import sys, ssl, zlib, ctypes, venv; print('%d.%d' % sys.version_info[:2], sys.version.split()[0])"
_MANAGED = (
    "{home}/.pyenv/versions/{v}*/bin/python{v}",
    "{pyenv}/versions/{v}*/bin/python{v}",
    "/root/.pyenv/versions/{v}*/bin/python{v}",
    "{home}/.local/share/uv/python/*-{v}*/bin/python{v}",
    "{home}/.asdf/installs/python/{v}*/bin/python{v}",
    "{home}/.local/share/mise/installs/python/{v}*/bin/python{v}",
    "/opt/*/bin/python{v}",
    "/opt/*/*/bin/python{v}",
    "/usr/local/bin/python{v}",
    "/usr/bin/python{v}",
)


class Interpreter(Value, frozen=True):
    """A Python that works: its path, "3.11", and the whole version ("3.11.7")."""

    path: str
    minor: str
    version: str


def running() -> Interpreter:
    """The interpreter that llmbx itself runs in."""
    major, minor, micro = sys.version_info[:3]
    return Interpreter(path=sys.executable, minor=f"{major}.{minor}", version=f"{major}.{minor}.{micro}")


def preference(pythons: Sequence[str]) -> list[str]:
    """The admitted versions ("3.11"), the running interpreter's first, the others in the lock's order."""
    return sorted(pythons, key=lambda minor: minor != running().minor)


def find_interpreter(pythons: Sequence[str]) -> Interpreter:
    """The first interpreter that works, of the versions `pythons` admits.

    The running one is taken if it fits; then every match on PATH, then the folders of version managers, then uv's
    knowledge. Raises `InfraError` that says how to get one.
    """
    if running().minor in pythons:
        return running()
    for minor in pythons:
        for path in _unique(_candidates(minor)):
            if found := probe(path, minor):
                return found
    wanted = " or ".join(pythons)
    raise InfraError(
        f"no Python {wanted} was found on PATH or in the folders of pyenv, uv, asdf, mise and /opt (llmbx runs in "
        f"{running().version}); get one with `apt install python{pythons[0]}`, `uv python install {pythons[0]}` or "
        f"`pyenv install {pythons[0]}`"
    )


def probe(path: str, minor: str) -> Interpreter | None:
    """What `path` is when run, or None when it fails, hangs, is another version or lacks what pip and venv need."""
    import subprocess

    try:
        done = subprocess.run(
            [path, "-I", "-c", _PROBE], capture_output=True, text=True, errors="replace", timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = done.stdout.split()
    if done.returncode != 0 or len(said) != 2 or said[0] != minor:
        return None
    return Interpreter(path=path, minor=minor, version=said[1])


def _candidates(minor: str) -> Iterator[str]:
    """Paths that may be a Python of version `minor`, the likely ones first."""
    for folder in os.get_exec_path():
        path = Path(folder) / f"python{minor}"
        if path.is_file():
            yield str(path)
    home = Path.home()
    for pattern in _MANAGED:
        place = pattern.format(v=minor, home=home, pyenv=os.environ.get("PYENV_ROOT") or home / ".pyenv")
        yield from sorted(map(str, Path("/").glob(place.lstrip("/"))), reverse=True)
    if uv := shutil.which("uv"):
        import subprocess

        done = subprocess.run(
            [uv, "python", "find", minor], capture_output=True, text=True, errors="replace", timeout=20, check=False
        )
        yield from done.stdout.split("\n")[:1] if done.returncode == 0 else ()


def _unique(paths: Iterable[str]) -> Iterator[str]:
    """Each path once, in order."""
    seen: set[str] = set()
    for path in paths:
        if path and path not in seen:
            seen.add(path)
            yield path
