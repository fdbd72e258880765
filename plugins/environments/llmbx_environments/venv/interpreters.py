"""Find a Python interpreter for an environment. Candidates are run, because a name on PATH may be a broken shim."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from llmbx.api import InfraError, Value

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
    """A working Python: its path, its minor version ("3.11") and its full version ("3.11.7")."""

    path: str
    minor: str
    version: str


def running() -> Interpreter:
    """The interpreter that runs llmbx."""
    major, minor, micro = sys.version_info[:3]
    return Interpreter(
        path=sys.executable, minor=f"{major}.{minor}", version=f"{major}.{minor}.{micro}"
    )


def preference(pythons: Sequence[str]) -> list[str]:
    """The supported versions ("3.11"): the running interpreter's first, the others in the order of the lock."""
    return sorted(pythons, key=lambda minor: minor != running().minor)


def find_interpreter(pythons: Sequence[str]) -> Interpreter:
    """The first working interpreter of one of the versions `pythons`.

    Candidates are, in order: the running interpreter, PATH, the folders of version managers, `uv python find`. Raises
    `InfraError` with installation instructions if there is none.
    """
    if running().minor in pythons:
        return running()
    for minor in pythons:
        for path in _unique(_candidates(minor)):
            if found := probe(path, minor):
                return found
    wanted = " or ".join(pythons)
    raise InfraError(
        f"no Python {wanted} was found on PATH or in the folders of pyenv, uv, asdf, mise and /opt (llmbx runs with "
        f"{running().version}); install one with `apt install python{pythons[0]}`, `uv python install {pythons[0]}` or "
        f"`pyenv install {pythons[0]}`"
    )


def probe(path: str, minor: str) -> Interpreter | None:
    """Run the interpreter `path`; None if it fails, hangs, is another version, or lacks modules for pip and venv."""
    import subprocess

    try:
        done = subprocess.run(
            [path, "-I", "-c", _PROBE],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    output = done.stdout.split()
    if done.returncode != 0 or len(output) != 2 or output[0] != minor:
        return None
    return Interpreter(path=path, minor=minor, version=output[1])


def _candidates(minor: str) -> Iterator[str]:
    """Paths that may be a Python of version `minor`, most likely first."""
    for folder in os.get_exec_path():
        path = Path(folder) / f"python{minor}"
        if path.is_file():
            yield str(path)
    home = Path.home()
    for pattern in _MANAGED:
        glob = pattern.format(
            v=minor, home=home, pyenv=os.environ.get("PYENV_ROOT") or home / ".pyenv"
        )
        yield from sorted(map(str, Path("/").glob(glob.lstrip("/"))), reverse=True)
    if uv := shutil.which("uv"):
        import subprocess

        done = subprocess.run(
            [uv, "python", "find", minor],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
        )
        yield from done.stdout.split("\n")[:1] if done.returncode == 0 else ()


def _unique(paths: Iterable[str]) -> Iterator[str]:
    """Each path once, in order."""
    seen: set[str] = set()
    for path in paths:
        if path and path not in seen:
            seen.add(path)
            yield path
