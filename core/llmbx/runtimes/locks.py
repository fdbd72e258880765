"""A lock that holds across processes and across nodes of a shared file system, and says who has it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .base import Progress

LEASE_S = 60.0
"""A holder on another machine that shows no sign of life for this long has lost the lock."""

REPEAT_S = 30.0
"""How often a waiting process says again what it waits for."""


@contextmanager
def held(path: Path, doing: str, progress: Progress) -> Iterator[bool]:
    """Hold the lock file `path`; the value is True when another process had it first.

    `doing` completes the line shown while waiting ("process 12 on node3 has the lock: <doing>"). The lock is a file
    made exclusively and kept fresh, so it needs no flock: a holder that died on this machine is replaced at once, one
    on another machine after `LEASE_S`. Raises OSError when the lock file cannot be made.
    """
    from filelock import SoftFileLease, Timeout

    lease = SoftFileLease(str(path), lease_duration=LEASE_S)
    started, said, waited = time.monotonic(), -REPEAT_S, False
    while True:
        try:
            lease.acquire(timeout=2 if waited else 0, poll_interval=0.1)
            break
        except Timeout:
            waited = True
        now = time.monotonic() - started
        if now - said >= REPEAT_S:
            said = now
            progress(f"waiting ({now:.0f} s): {_holder(lease.owner)} has the lock: {doing}")
    try:
        yield waited
    finally:
        lease.release()


def _holder(owner: object) -> str:
    """Who holds a lease, in words; `owner` is filelock's record of it, or None when it was just given up."""
    pid, host = getattr(owner, "pid", None), str(getattr(owner, "hostname", ""))
    return f"process {pid} on {host.partition('?')[0]}" if pid else "another process"
