"""Debian packages for the tests, installed once: test processes that run side by side wait for one another here."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from filelock import FileLock

LOCK = Path(tempfile.gettempdir()) / f"llmbx-tests-apt-{os.getuid()}.lock"
LISTS = LOCK.with_suffix(".updated")
FRESH_S = 3600
"""How long package lists are good for: every group of tests needs some packages, and one update serves them all."""


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Nobody else of these tests installs anything meanwhile."""
    with FileLock(LOCK, timeout=1800):
        yield


def install(packages: Sequence[str]) -> str | None:
    """Install Debian `packages` without starting their services. Returns what went wrong in one line, or None."""
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        return "it takes root on Debian or Ubuntu"
    with alone(), _no_services():
        if not LISTS.exists() or time.time() - LISTS.stat().st_mtime > FRESH_S:
            done = _apt("update", "-qq")
            if done.returncode:
                return f"apt-get update: {_last(done)}"
            LISTS.touch()
        done = _apt("install", "-qq", "-y", "--no-install-recommends", *packages)
        return f"apt-get install: {_last(done)}" if done.returncode else None


def _apt(*arguments: str) -> subprocess.CompletedProcess[str]:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(["apt-get", *arguments], env=quiet, capture_output=True, text=True, check=False)


def _last(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.strip()[-500:] or f"exit code {done.returncode}"


@contextlib.contextmanager
def _no_services(policy: Path = Path("/usr/sbin/policy-rc.d")) -> Iterator[None]:
    """Keep apt from starting the system's own daemons meanwhile (invoke-rc.d asks this file; 101 forbids)."""
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()
