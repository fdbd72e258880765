"""Find a Python interpreter for an environment.

Candidates are run, because a name on PATH may be a broken shim.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from llmbx.api import InfraError, Value

from ..programs import output_of

_PROBE = (
    "import sys, ssl, zlib, ctypes, venv; "
    "print('%d.%d' % sys.version_info[:2], sys.version.split()[0])"
)
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
_PATIENCE_S = 20


class Interpreter(Value, frozen=True):
    """A working Python: its path, its minor version ("3.11") and its full version ("3.11.7")."""

    path: str
    minor: str
    version: str


def running() -> Interpreter:
    """The interpreter that runs llmbx."""
    major, minor, micro = sys.version_info[:3]
    version = f"{major}.{minor}.{micro}"
    return Interpreter(path=sys.executable, minor=f"{major}.{minor}", version=version)


def preference(pythons: Sequence[str]) -> list[str]:
    """The supported versions: the running interpreter's first, then in the order of the lock."""
    return sorted(pythons, key=lambda minor: minor != running().minor)


def find_interpreter(pythons: Sequence[str]) -> Interpreter:
    """The first working interpreter of one of the versions `pythons`.

    Candidates are, in order: the running interpreter, PATH, the folders of version managers, `uv
    python find`. Raises `InfraError` with installation instructions if there is none.
    """
    if running().minor in pythons:
        return running()
    for minor in pythons:
        for path in dict.fromkeys(_candidates(minor)):
            if interpreter := probe(path, minor):
                return interpreter
    first = pythons[0]
    raise InfraError(
        f"no Python {' or '.join(pythons)} was found on PATH or in the folders of pyenv, uv, asdf, "
        f"mise and /opt (llmbx runs with {running().version}); install one with `apt install "
        f"python{first}`, `uv python install {first}` or `pyenv install {first}`"
    )


def probe(path: str, minor: str) -> Interpreter | None:
    """Run the interpreter `path`; None if it fails, is another version, or cannot make a venv."""
    words = output_of([path, "-I", "-c", _PROBE], timeout_s=_PATIENCE_S).split()
    if len(words) != 2 or words[0] != minor:
        return None
    return Interpreter(path=path, minor=minor, version=words[1])


def _candidates(minor: str) -> Iterator[str]:
    """Paths that may be a Python of version `minor`, most likely first."""
    for folder in os.get_exec_path():
        path = Path(folder) / f"python{minor}"
        if path.is_file():
            yield str(path)
    home = Path.home()
    pyenv = os.environ.get("PYENV_ROOT") or home / ".pyenv"
    for pattern in _MANAGED:
        glob = pattern.format(v=minor, home=home, pyenv=pyenv).lstrip("/")
        yield from sorted(map(str, Path("/").glob(glob)), reverse=True)
    if uv := shutil.which("uv"):
        answer = output_of([uv, "python", "find", minor], timeout_s=_PATIENCE_S)
        yield from filter(None, answer.splitlines()[:1])
