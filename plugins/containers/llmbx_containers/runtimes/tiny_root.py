"""A root file system of the host's own shell, a few megabytes: enough to prove that a container tool starts one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from llmbx.model import Finding

_FOLDERS = ("bin", "etc", "tmp", "proc", "sys", "dev", "root", "run", "usr", "var/tmp")


@contextmanager
def tiny_root() -> Iterator[Path]:
    """A temporary folder with /bin/sh, the libraries it needs, and the folders that container tools mount on."""
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
    """The same as a tar file."""
    with tiny_root() as root:
        archive = root.with_suffix(".tar")
        subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
        yield archive


def check_with(tool: str, commands: Sequence[Sequence[str]], env: Mapping[str, str] | None = None) -> Finding | None:
    """Run `commands` in order; None when all succeed, else what the first failure said."""
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
            return Finding(rule=f"runtime {tool}", problem=f"{tool} did not start: {error}", fix=f"repair {tool}")
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            problem = f"`{' '.join(argv[:3])} …` ended with {done.returncode}: {said[-1]}"
            return Finding(rule=f"runtime {tool}", problem=problem, fix=f"run it by hand and repair {tool}")
    return None


def _libraries(program: Path) -> list[Path]:
    """The shared libraries that `program` loads, the loader among them."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, errors="replace", check=False)
    return [Path(found) for found in re.findall(r"(/\S+) \(0x", done.stdout)]
