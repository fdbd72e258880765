"""A lock across processes and across nodes of a shared file system, which reports its holder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llmbx.api import Progress

LEASE_S = 60.0
"""Seconds without renewal after which a holder on another machine loses the lock."""

REPEAT_S = 30.0
"""Seconds between two progress lines of a waiting process."""


@contextmanager
def held(path: Path, doing: str, progress: Progress) -> Iterator[bool]:
    """Hold the lock file `path`; the value is True if another process held it first.

    `doing` completes the line shown while waiting ("process 12 on node3 has the lock: <doing>").
    The lock is a file that is created exclusively and renewed, so it does not need flock: a holder
    that died on this machine is replaced at once, one on another machine after `LEASE_S`. Raises
    OSError if the lock file cannot be created.
    """
    from filelock import SoftFileLease, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lease = SoftFileLease(str(path), lease_duration=LEASE_S)
    started, reported, waited = time.monotonic(), -REPEAT_S, False
    while True:
        try:
            lease.acquire(timeout=2 if waited else 0, poll_interval=0.1)
            break
        except Timeout:
            waited = True
        now = time.monotonic() - started
        if now - reported >= REPEAT_S:
            reported = now
            progress(f"waiting ({now:.0f} s): {_holder(lease.owner)} has the lock: {doing}")
    try:
        yield waited
    finally:
        lease.release()


def _holder(owner: object) -> str:
    """Describe the holder of a lease; `owner` is None if the lease was just released."""
    pid, host = getattr(owner, "pid", None), str(getattr(owner, "hostname", ""))
    return f"process {pid} on {host.partition('?')[0]}" if pid else "another process"
