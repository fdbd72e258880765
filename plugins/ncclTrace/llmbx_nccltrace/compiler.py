"""Compile `scan.c` with the local C compiler and cache the result."""

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
"""No flag depends on the local CPU model, since machines with different CPUs may share a home folder."""

COMPILER_VARIABLE = "LLMBX_NCCL_COMPILER"
"""Environment variable with the compiler command; `none` disables compilation."""


def find_compiler(environ: Mapping[str, str]) -> list[str] | None:
    """Return the C compiler command: the first that exists of `LLMBX_NCCL_COMPILER`, `CC`, cc, gcc and clang."""
    if environ.get(COMPILER_VARIABLE) == "none":
        return None
    for name in (environ.get(COMPILER_VARIABLE), environ.get("CC"), "cc", "gcc", "clang"):
        words = shlex.split(name or "")
        if words and shutil.which(words[0]):
            return words
    return None


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the cache folder: `$XDG_CACHE_HOME/llmbx/compiled`, with `~/.cache` as the default."""
    return Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "llmbx" / "compiled"


@contextlib.contextmanager
def shared_object(source: Path, environ: Mapping[str, str]) -> Iterator[Path | None]:
    """Yield the shared object compiled from `source`; None if it is not cached and cannot be compiled.

    A cached object is used only if no other user can write to it. If the cache is not writable, the object is compiled
    into a temporary folder that is removed when the context exits.
    """
    build = " ".join((*FLAGS, sys.platform, platform.machine(), *platform.libc_ver())).encode()
    key = hashlib.sha256(source.read_bytes() + build).hexdigest()[:16]
    cached = cache_folder(environ) / f"nccl-scan-{key}.so"
    if _is_trusted(cached):
        yield cached
        return
    command = find_compiler(environ)
    if command is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="llmbx-nccl-") as folder:
        compiled = Path(folder) / "scan.so"
        if not _compile(command, source, compiled):
            yield None
        else:
            yield cached if _store(compiled, cached) else compiled


def _is_trusted(path: Path) -> bool:
    """Whether the file is safe to load: it and its folder are owned by this user and writable by no other."""
    try:
        found, folder = path.lstat(), path.parent.stat()
    except OSError:
        return False
    safe = all(s.st_uid == os.getuid() and not s.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for s in (found, folder))
    return safe and stat.S_ISREG(found.st_mode)


def _compile(command: list[str], source: Path, target: Path) -> bool:
    import subprocess

    try:
        done = subprocess.run([*command, *FLAGS, str(source), "-o", str(target)], capture_output=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and target.is_file()


def _store(compiled: Path, cached: Path) -> bool:
    """Copy the compiled object into the cache. Returns False if that fails or the result would not be safe to load."""
    try:
        cached.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".scan-", dir=cached.parent)
        os.close(handle)
        shutil.copyfile(compiled, name)
        Path(name).replace(cached)
    except OSError:
        return False
    return _is_trusted(cached)
