"""Run a script as a detached process of this machine, like a batch job."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from ..errors import InfraError, UsageError
from ..model import JobStatus
from . import processes
from .exits import exit_status, read_exit

STOP_GRACE = "LLMBX_STOP_GRACE_S"
"""Variable with the seconds that the script gives its ranks between TERM and KILL (default: 10)."""
SCRIPT_GRACE_S = 10.0
"""Additional seconds that `stop` waits for the script before it kills everything that the script started."""


def stop_grace_s(environ: Mapping[str, str]) -> int:
    """Return the value of `STOP_GRACE`. Raises `UsageError` if it is not an integer, which the script needs."""
    text = environ.get(STOP_GRACE, "").strip() or "10"
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"{STOP_GRACE}={text!r}: expected an integer number of seconds")
    return int(text)


def start(script: Path, output: Path, run_dir: Path, environ: Mapping[str, str] | None = None) -> str:
    """Start the script in a session of its own, which outlives this process, and return its job id.

    Raises `InfraError` if it cannot be started, `UsageError` for an invalid value of `STOP_GRACE`.
    """
    import subprocess

    stop_grace_s(os.environ if environ is None else environ)

    try:
        with output.open("ab") as out:
            process = subprocess.Popen(
                ["bash", os.fspath(script)], env=None if environ is None else dict(environ),
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=run_dir, start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise InfraError(f"{script} could not be started: {error.strerror or error}") from error
    process.returncode = 0  # Popen must not wait for it; `processes.look` reaps it
    return processes.identify(process.pid, run_dir)


def status(process: str, run_dir: Path, started: float) -> JobStatus:
    """Return the script's status: from exit.json if it exists, else from its processes that are alive."""
    end = read_exit(run_dir)
    if end is not None:
        return exit_status(end)
    found = processes.look(process, run_dir)
    if found.elsewhere:
        return JobStatus(state="running", reason=f"runs on {found.elsewhere}", started=started)
    if found.leader:
        return JobStatus(state="running", started=started)
    end = read_exit(run_dir)  # it may have been written since
    if end is not None:
        return exit_status(end)
    if found.others:
        reason = f"its script was killed, but {len(found.others)} of its processes are still running"
        return JobStatus(state="running", reason=reason, started=started)
    return JobStatus(state="lost", reason=f"its script ended without writing exit.json{found.because}", started=started)


def stop(process: str, run_dir: Path) -> None:
    """Make the script stop its ranks; kill what is left after the grace period. Raises `InfraError` on another host."""
    grace_s = stop_grace_s(os.environ)
    found = _here(process, run_dir)
    if found.leader:
        processes.send(found.leader, signal.SIGTERM)
    deadline = time.monotonic() + grace_s + SCRIPT_GRACE_S
    while found.leader and time.monotonic() < deadline:
        time.sleep(0.1)
        found = processes.look(process, run_dir)
    for pid in found.all:
        processes.send(pid, signal.SIGKILL)


def dump_stacks(process: str, run_dir: Path) -> None:
    """Make the script send SIGUSR1 to its ranks. Raises `InfraError` on another host."""
    leader = _here(process, run_dir).leader
    if leader:
        processes.send(leader, signal.SIGUSR1)


def _here(process: str, run_dir: Path) -> processes.Found:
    found = processes.look(process, run_dir)
    if found.elsewhere:
        raise InfraError(f"job {process} runs on {found.elsewhere}: run this command there")
    return found
