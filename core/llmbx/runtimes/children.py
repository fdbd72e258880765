"""Run child processes, follow their output line by line, and stop them: on any interruption, or in the next call."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

POLL_S = 0.25
GRACE_S = 5.0
"""Seconds between SIGTERM and SIGKILL, and for which a killed process is waited for."""


def follow(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    on_line: Callable[[str], None],
    on_tick: Callable[[], None] = lambda: None,
) -> int:
    """Run `argv` in a process group of its own and return its exit code.

    `on_line` gets each line of stdout and stderr, `on_tick` is called at least every `POLL_S` seconds. If this
    call ends early (Ctrl-C, an exception of a callback), the whole process group is stopped first.
    """
    child = subprocess.Popen(
        argv,
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        assert child.stdout is not None
        _pump(child.stdout, on_line, on_tick)
        return child.wait()
    except BaseException:
        end_group(child)
        raise


def end_group(child: subprocess.Popen[bytes]) -> None:
    """Stop the process group that `child` leads: SIGTERM, then SIGKILL after `GRACE_S` seconds."""
    for number, timeout in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout)
    if child.stdout is not None:
        child.stdout.close()


def end_leftovers(folder: Path, word: str | None = None) -> None:
    """Kill what a killed llmbx left running: this user's processes whose argv names `folder`, and has `word`."""
    import psutil

    for process in psutil.process_iter(["cmdline", "uids"]):
        argv, uids = process.info["cmdline"] or (), process.info["uids"]
        mine = uids and uids.real == os.getuid() and process.pid != os.getpid()
        if mine and any(str(folder) in part for part in argv) and word in (None, *argv):
            with suppress(psutil.Error):
                process.kill()
                process.wait(GRACE_S)


def _pump(stream: IO[bytes], on_line: Callable[[str], None], on_tick: Callable[[], None]) -> None:
    """Read `stream` to its end, line by line (a carriage return ends a line too)."""
    rest = b""
    with selectors.DefaultSelector() as selector, stream:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            if selector.select(POLL_S):
                chunk = os.read(stream.fileno(), 65536)
                if not chunk:
                    break
                *lines, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
                for line in lines:
                    on_line(line.decode(errors="replace"))
            on_tick()
    if rest:
        on_line(rest.decode(errors="replace"))
