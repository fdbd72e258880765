"""Run a script as a detached process of this machine, like a batch job."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ..errors import InfraError, UsageError
from ..model.job import JobStatus
from ..run_files import RunFolder
from . import processes
from .exits import read_exit
from .supervisor import COMMAND, ORPHANED

STOP_GRACE = "LLMBX_STOP_GRACE_S"
"""Variable with the seconds that the script gives its ranks between TERM and KILL (default: 5)."""
SCRIPT_GRACE_S = 32.0
"""Additional seconds that `stop` waits for script and supervisor before it kills everything that they started."""


def stop_grace_s(environ: Mapping[str, str]) -> int:
    """Return the value of `STOP_GRACE`. Raises `UsageError` if it is not an integer, which the script needs."""
    text = environ.get(STOP_GRACE, "").strip() or "5"
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"{STOP_GRACE}={text!r}: expected an integer number of seconds")
    return int(text)


def start(
    script: Path, output: Path, run_dir: Path, environ: Mapping[str, str] | None = None, *, attended: bool = False
) -> str:
    """Start the script in a session of its own, under a supervisor that ends all that it starts; return its job id.

    The script outlives this process. With `attended` it ends with this process, even if that is killed, until
    `release` is called. Raises `InfraError` if it cannot be started, `UsageError` for an invalid value of `STOP_GRACE`.
    """
    import subprocess

    grace_s = stop_grace_s(os.environ if environ is None else environ)
    _tidy()
    RunFolder(path=run_dir).remove(ORPHANED)
    report, write_end = os.pipe()
    lifeline, held = os.pipe() if attended else (-1, -1)
    process = None
    try:
        with RunFolder(path=output.parent).append(output.name) as out:
            process = subprocess.Popen(
                [sys.executable, *COMMAND, processes.SUPERVISOR, str(grace_s), str(write_end), str(lifeline),
                 str(script)],
                env=None if environ is None else dict(environ), stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, cwd=run_dir, start_new_session=True,
                pass_fds=[write_end, *([lifeline] if attended else [])],
            )  # fmt: skip
        process.returncode = 0  # Popen must not wait for it; `_tidy` and `processes.look` reap it
        os.close(write_end)
        write_end = -1
        job_id = _reported(report, script)
        processes.note_place(run_dir, job_id, processes.as_job_id(process.pid))
    except BaseException as error:
        _close(held)
        if process is not None:
            os.kill(process.pid, signal.SIGTERM)  # the supervisor ends what it has started
        if isinstance(error, OSError):
            raise InfraError(f"{script} could not be started: {error.strerror or error}") from error
        raise
    finally:
        _close(report, write_end, lifeline)
    _started[job_id] = (process.pid, held)
    return job_id


_started: dict[str, tuple[int, int]] = {}
"""Supervisor and lifeline (-1: none) of the jobs that this process started, by job id."""


def release(process: str) -> None:
    """Let an attended job continue when this process ends."""
    _, held = _started.pop(process, (0, -1))
    if held >= 0:
        with contextlib.suppress(BrokenPipeError):  # it has already ended
            os.write(held, b".")
        _close(held)


def _tidy() -> None:
    """Forget supervisors that have ended, so that many runs of one process leave no zombies and open files."""
    for job_id, (pid, held) in list(_started.items()):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                continue
        del _started[job_id]
        _close(held)


def _reported(report: int, script: Path) -> str:
    """Return the job id that the supervisor reports for the script. Raises `OSError` if bash cannot be started."""
    with os.fdopen(os.dup(report)) as file:
        job_id, *errors = file.read().splitlines() or [""]
    if errors:
        number = int(errors[0].split()[1])
        raise OSError(number, f"bash: {os.strerror(number)}")
    if not job_id:
        raise InfraError(f"{script} could not be started: its supervisor ended immediately")
    return job_id


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)


def status(process: str, run_dir: Path, started: float) -> JobStatus:
    """Return the script's status: from exit.json if it exists, else from its processes that are alive."""
    end = read_exit(run_dir)
    if end is not None:
        return end.status()
    state = processes.look(process, run_dir)
    if state.elsewhere:
        return JobStatus(state="running", reason=f"runs on {state.elsewhere}", started=started)
    if state.leader:
        return JobStatus(state="running", started=started)
    end = read_exit(run_dir)  # it may have been written since
    if end is not None:
        return end.status()
    if state.others:
        reason = f"its script was killed, but {len(state.others)} of its processes are still running"
        return JobStatus(state="running", reason=reason, started=started)
    return JobStatus(state="lost", reason=f"its script ended without writing exit.json{state.because}", started=started)


def stop(process: str, run_dir: Path) -> None:
    """Make the supervisor stop the run; kill what is left after the grace period.

    Raises `InfraError` on another host and for processes of another user.
    """
    grace_s = stop_grace_s(os.environ)
    state = _here(process, run_dir)
    if first := state.supervisor or state.leader:
        processes.send(first, signal.SIGTERM)
        processes.send(first, signal.SIGCONT)
    deadline = time.monotonic() + grace_s + SCRIPT_GRACE_S
    while (state.supervisor or state.leader) and time.monotonic() < deadline:
        time.sleep(0.1)
        state = processes.look(process, run_dir)
    refused = None
    for left in state.all:
        try:
            processes.send(left, signal.SIGKILL)
        except InfraError as error:
            refused = error
    if refused:
        raise refused


def dump_stacks(process: str, run_dir: Path) -> None:
    """Make the script send SIGUSR1 to its ranks. Raises `InfraError` on another host."""
    leader = _here(process, run_dir).leader
    if leader:
        processes.send(leader, signal.SIGUSR1)


def _here(process: str, run_dir: Path) -> processes.Found:
    state = processes.look(process, run_dir)
    if state.elsewhere:
        raise InfraError(f"job {process} runs on {state.elsewhere}: run this command there")
    return state
