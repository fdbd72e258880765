"""A root file system of a few MB with the host's shell, to check that containers start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from llmbx.api import Finding

from ...programs import last_line, output_of, run

_FOLDERS = ("bin", "etc", "tmp", "proc", "sys", "dev", "root", "run", "usr", "var/tmp")
_FILES = ("passwd", "group", "hosts", "resolv.conf", "localtime")


@contextmanager
def tiny_root() -> Iterator[Path]:
    """A temporary folder with /bin/sh, its libraries, and what container tools mount over."""
    with tempfile.TemporaryDirectory(prefix="llmbx-doctor-") as folder:
        root = Path(folder) / "root"
        for name in _FOLDERS:
            (root / name).mkdir(parents=True)
        for name in _FILES:
            (root / "etc" / name).touch()
        shell = Path("/bin/sh").resolve()
        for library in _libraries(shell):
            copy = root / library.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, copy)
        shutil.copy(shell, root / "bin" / "sh")
        yield root


@contextmanager
def tiny_archive() -> Iterator[Path]:
    """The same root file system as a tar file."""
    with tiny_root() as root:
        archive = root.with_suffix(".tar")
        subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
        yield archive


def check_with(
    tool: str, commands: Sequence[Sequence[str]], env: Mapping[str, str] | None = None
) -> Finding | None:
    """Run `commands` in order; the first failure as a finding, None if all succeed."""
    for argv in commands:
        if problem := _problem(tool, argv, {**os.environ, **(env or {})}):
            return problem
    return None


def _problem(tool: str, argv: Sequence[str], env: Mapping[str, str]) -> Finding | None:
    rule = f"runtime {tool}"
    try:
        done = run(argv, env, timeout_s=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(rule=rule, problem=f"{tool} did not start: {error}", fix=f"repair {tool}")
    if done.returncode == 0:
        return None
    command = f"`{' '.join(argv[:3])} …`"
    problem = f"{command} exited with code {done.returncode}: {last_line(done)}"
    return Finding(rule=rule, problem=problem, fix=f"run the command and repair {tool}")


def _libraries(program: Path) -> list[Path]:
    """The shared libraries of `program`, including the loader."""
    listing = output_of(["ldd", str(program)])
    return [Path(path) for path in re.findall(r"(?<!\S)(/\S+) \(0x", listing)]
