"""Find the processes of a local run from any process of the same machine. Reads /proc and keeps no state."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path

import msgspec

from ..clock import boot_id
from ..codec import decode
from ..errors import InfraError
from ..run_files import RunFolder, user_name
from ..toml_file import NOT_JSON
from . import supervisor as supervisor_module
from .supervisor import Process, descendants, living, outlives, read_entry, read_process
from .supervisor import send as send_signal

PLACE = "local.json"
ENDED = "4194305-0"
"""Job id of a script that has ended: Linux has no process id above 2^22 (proc(5), pid_max)."""
SUPERVISOR = str(Path(supervisor_module.__file__).absolute().parent)
"""The folder of the supervisor's program."""


class Place(msgspec.Struct, frozen=True):
    """Where a local run was started: its process ids are valid only there, until the machine is restarted.

    `script` is the job id of the latest script in the folder, `supervisor` the process that started it, also as a job
    id; None if the user started the script.
    """

    host: str
    boot_id: str
    script: str | None = None
    supervisor: str | None = None


class Found(msgspec.Struct, frozen=True):
    """The living processes of a job: its script (`leader`), its `supervisor`, and the `others`.

    `others` are those of the script's session and all others that the script started, without those that clean up.
    `elsewhere` is the job's host if it is not this one, `because` explains why nothing is left.
    """

    leader: Process | None = None
    others: tuple[Process, ...] = ()
    supervisor: Process | None = None
    elsewhere: str | None = None
    because: str = ""

    @property
    def all(self) -> tuple[Process, ...]:
        """Every living process, the script first: if killed first, it cannot report the others' end as a failure."""
        return (*filter(None, (self.leader,)), *self.others, *filter(None, (self.supervisor,)))


def identify(pid: int, run_dir: Path) -> str:
    """Return the job id of a script just started: its process id and its start in clock ticks since boot.

    A reused process id has another start. The host is recorded in the run folder. Raises `InfraError` if the process
    does not exist.
    """
    process = read_entry(pid)
    if process is None:
        raise InfraError(f"the script (process {pid}) ended immediately")
    job_id = f"{pid}-{process.start}"
    note_place(run_dir, job_id, _supervisor(process.parent))
    return job_id


def note_place(run_dir: Path, script: str, supervisor: str | None) -> None:
    """Record in the run folder that its script, with this supervisor, is on this host."""
    place = Place(host=platform.node(), boot_id=boot_id(), script=script, supervisor=supervisor)
    RunFolder(path=run_dir).write(PLACE, msgspec.json.encode(place))


def as_job_id(pid: int) -> str | None:
    """Return a process, also a zombie, in the form of a job id; None if there is none."""
    process = read_entry(pid)
    return f"{pid}-{process.start}" if process else None


def recall(pid: int, host: str, run_dir: Path) -> str:
    """Return the job id of a script that another process started: `pid` on `host`, as printed by the script."""
    if host != platform.node():
        folder = RunFolder(path=run_dir)
        if not folder.file(PLACE).exists():
            folder.write(PLACE, msgspec.json.encode(Place(host=host, boot_id="")))
        return f"{pid}-0"
    with contextlib.suppress(OSError, InfraError):
        if os.fsencode(run_dir) in Path(f"/proc/{pid}/cmdline").read_bytes():
            return identify(pid, run_dir)
    return f"{pid}-0"


def search(run_dir: Path, script: str) -> str | None:
    """Search the processes of this machine for the script of this run folder; return its job id or None.

    For a run that was started on another machine, return an id for which `look` reports that machine.
    """
    place = _place(run_dir)
    if place and place.host != platform.node():
        return ENDED
    path = os.fsencode(run_dir / script)
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, InfraError):
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[1:2] == [path]:
                return identify(int(entry.name), run_dir)
    return None


def look(job_id: str, run_dir: Path) -> Found:
    """Return the processes of the job that are alive."""
    place = _place(run_dir)
    if place and place.host != platform.node():
        return Found(elsewhere=place.host)
    if place and place.boot_id != boot_id():
        return Found(because=": the machine was restarted")
    named = place.supervisor if place and place.script == job_id else None  # not that of a later attempt
    supervisor = _identified(named) if named else None
    if named and supervisor is None:
        _reap(_parts(named)[0])
    pid, start = _parts(job_id)
    leader = read_entry(pid)
    if leader is not None and leader.start != start:
        return Found(supervisor=supervisor, others=_below(supervisor, pid))
    if leader is not None and leader.ended:
        _reap(pid)
    others = {process.pid: process for process in (*_members(pid, start), *_below(supervisor, pid))}
    return Found(leader=_identified(job_id), others=tuple(others.values()), supervisor=supervisor)


def send(process: Process, number: int) -> None:
    """Send a signal; a process that no longer exists is ignored. Raises `InfraError` for one of another user."""
    try:
        send_signal(process, number)
    except PermissionError:
        with contextlib.suppress(FileNotFoundError):
            owner = user_name(Path(f"/proc/{process.pid}").stat().st_uid)
            raise InfraError(f"process {process.pid} belongs to {owner}: only that user can stop it") from None


def _identified(job_id: str) -> Process | None:
    """Return the living process with this id and start."""
    pid, start = _parts(job_id)
    process = read_process(pid)
    return process if process is not None and process.start == start else None


def _parts(job_id: str) -> tuple[int, int]:
    pid, start = job_id.split("-")
    return int(pid), int(start)


def _supervisor(parent: int) -> str | None:
    """Return the process as a job id if it is the supervisor of a script."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{parent}/cmdline").read_bytes().split(b"\0")
        if any(word.endswith(b"llmbx/launchers") for word in words):  # of any installed llmbx
            return as_job_id(parent)
    return None


def _below(supervisor: Process | None, leader: int) -> tuple[Process, ...]:
    """Return what the supervisor must end, without the script."""
    below = descendants(supervisor.pid) if supervisor else []
    return tuple(process for process in below if process.pid != leader and not outlives(process))


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _members(session: int, start: int) -> tuple[Process, ...]:
    """Return the living processes of a session that are not older than its leader, without the leader."""
    members = [
        process
        for process in living()
        if process.session == session and process.pid != session and process.start >= start
    ]
    return tuple(sorted(members, key=lambda process: process.pid))


def _place(run_dir: Path) -> Place | None:
    try:
        return decode(RunFolder(path=run_dir).read(PLACE), Place)
    except (OSError, *NOT_JSON):
        return None
