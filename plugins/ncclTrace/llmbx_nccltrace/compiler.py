"""Compiles `scan.c` with the machine's C compiler, once, and keeps the result in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

FLAGS = ("-O3", "-shared", "-fPIC")
"""Nothing that depends on the machine's own processor: a home folder may be shared by different ones."""

SWITCH = "LLMBX_NCCL_COMPILER"
"""Names the compiler to use; `none` forbids compiling."""


def find_compiler(environ: Mapping[str, str]) -> list[str] | None:
    """The command that compiles C: `LLMBX_NCCL_COMPILER`, `CC`, cc, gcc or clang, whichever is there first."""
    if environ.get(SWITCH) == "none":
        return None
    for name in (environ.get(SWITCH), environ.get("CC"), "cc", "gcc", "clang"):
        words = shlex.split(name or "")
        if words and shutil.which(words[0]):
            return words
    return None


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where compiled code is kept: `$XDG_CACHE_HOME/llmbx/compiled`, by default in `~/.cache`."""
    return Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "llmbx" / "compiled"


@contextlib.contextmanager
def shared_object(source: Path, environ: Mapping[str, str]) -> Iterator[Path | None]:
    """The compiled `source`, while it is needed; None where it can neither be found nor made.

    It is taken from the cache if it is there and belongs to this user alone. Where the cache cannot be written, it is
    compiled into a folder that lasts as long as the context.
    """
    made_for = " ".join((*FLAGS, sys.platform, platform.machine(), *platform.libc_ver())).encode()
    key = hashlib.sha256(source.read_bytes() + made_for).hexdigest()[:16]
    kept = cache_folder(environ) / f"nccl-scan-{key}.so"
    if _ours(kept):
        yield kept
        return
    command = find_compiler(environ)
    if command is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="llmbx-nccl-") as folder:
        made = Path(folder) / "scan.so"
        if not _compiled(command, source, made):
            yield None
        else:
            yield kept if _keep(made, kept) else made


def _ours(path: Path) -> bool:
    """Whether the file may be loaded: this user's, in this user's folder, and nobody else can write either."""
    try:
        found, folder = path.lstat(), path.parent.stat()
    except OSError:
        return False
    safe = all(s.st_uid == os.getuid() and not s.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for s in (found, folder))
    return safe and stat.S_ISREG(found.st_mode)


def _compiled(command: list[str], source: Path, target: Path) -> bool:
    import subprocess

    try:
        done = subprocess.run([*command, *FLAGS, str(source), "-o", str(target)], capture_output=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and target.is_file()


def _keep(made: Path, kept: Path) -> bool:
    """Move what was compiled into the cache; False where that is not possible or would not be safe."""
    try:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".scan-", dir=kept.parent)
        os.close(handle)
        shutil.copyfile(made, name)
        Path(name).replace(kept)
    except OSError:
        return False
    return _ours(kept)
