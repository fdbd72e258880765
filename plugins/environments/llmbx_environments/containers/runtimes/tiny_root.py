"""A minimal root file system (a few MB) with the host's shell, to check that a container tool can start a container."""

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

_FOLDERS = ("bin", "etc", "tmp", "proc", "sys", "dev", "root", "run", "usr", "var/tmp")


@contextmanager
def tiny_root() -> Iterator[Path]:
    """A temporary folder with /bin/sh, its shared libraries, and the mount points that container tools need."""
    with tempfile.TemporaryDirectory(prefix="llmbx-doctor-") as folder:
        root = Path(folder) / "root"
        for name in _FOLDERS:
            (root / name).mkdir(parents=True)
        for name in ("etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf", "etc/localtime"):
            (root / name).touch()
        shell = Path("/bin/sh").resolve()
        for library in _libraries(shell):
            (root / library.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library.relative_to("/"))
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
    """Run `commands` in order; None if all succeed, else a finding with the output of the first failure."""
    for argv in commands:
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=120,
                check=False,
                env={**os.environ, **(env or {})},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Finding(
                rule=f"runtime {tool}",
                problem=f"{tool} did not start: {error}",
                fix=f"repair {tool}",
            )
        if done.returncode != 0:
            output = (done.stderr or done.stdout).strip().splitlines() or ["no error output"]
            problem = f"`{' '.join(argv[:3])} …` exited with code {done.returncode}: {output[-1]}"
            return Finding(
                rule=f"runtime {tool}", problem=problem, fix=f"run the command and repair {tool}"
            )
    return None


def _libraries(program: Path) -> list[Path]:
    """The shared libraries of `program`, including the loader."""
    done = subprocess.run(
        ["ldd", str(program)], capture_output=True, text=True, errors="replace", check=False
    )
    return [Path(found) for found in re.findall(r"(?<!\S)(/\S+) \(0x", done.stdout)]
