"""Build wheels, and find the Pythons of this machine to install them for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from llmbx.errors import InfraError
from llmbx_environments.venv.interpreters import find_interpreter


def build_wheel(source: Path, out: Path) -> Path:
    """The wheel of a project, built with the build backend that the tests' environment has."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return max(out.glob("*.whl"), key=lambda path: path.stat().st_mtime_ns)


def python_of(minor: str) -> str | None:
    """The path of a Python of the version `minor` ("3.13") that works; None if this machine has none."""
    try:
        return find_interpreter([minor]).path
    except InfraError:
        return None
