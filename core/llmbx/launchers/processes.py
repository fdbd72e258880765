"""Find the processes of a local run from any process of the same machine. Reads /proc and keeps no state."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path

import msgspec

from ..codec import decode
from ..errors import InfraError
from ..files import write_atomic
from ..toml_file import NOT_JSON

PLACE = "local.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
ENDED = "4194305-0"
"""Job id of a script that has ended: Linux has no process id above 2^22 (proc(5), pid_max)."""
_STATE, _SESSION, _START = 2, 5, 21
"""Fields of /proc/PID/stat, counted from 0 (proc(5))."""


class Place(msgspec.Struct, frozen=True):
    """Where a local run was started: its process ids are valid only there, until the machine is restarted."""

    host: str
    boot_id: str


class Found(msgspec.Struct, frozen=True):
    """The living processes of a job: its script (`leader`) and the `others` of its session.

    `elsewhere` is the job's host if it is not this one, `because` explains why nothing is left.
    """

    leader: int | None = None
    others: tuple[int, ...] = ()
    elsewhere: str | None = None
    because: str = ""

    @property
    def all(self) -> tuple[int, ...]:
        """Every living process, the script first: if killed first, it cannot report the others' end as a failure."""
        return ((self.leader,) if self.leader else ()) + self.others


def identify(pid: int, run_dir: Path) -> str:
    """Return the job id of a script just started: its process id and its start in clock ticks since boot.

    A reused process id has another start. The host is recorded in the run folder. Raises `InfraError` if the process
    does not exist.
    """
    stat = _stat(pid)
    if stat is None:
        raise InfraError(f"the script (process {pid}) ended immediately")
    write_atomic(run_dir / PLACE, msgspec.json.encode(Place(host=platform.node(), boot_id=_boot_id())))
    return f"{pid}-{stat[_START]}"


def recall(pid: int, host: str, run_dir: Path) -> str:
    """Return the job id of a script that another process started: `pid` on `host`, as printed by the script."""
    place = run_dir / PLACE
    if host != platform.node():
        if not place.exists():
            write_atomic(place, msgspec.json.encode(Place(host=host, boot_id="")))
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
    wanted = os.fsencode(run_dir / script)
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, InfraError):
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[1:2] == [wanted]:
                return identify(int(entry.name), run_dir)
    return None


def look(job_id: str, run_dir: Path) -> Found:
    """Return the processes of the job that are alive."""
    place = _place(run_dir)
    if place and place.host != platform.node():
        return Found(elsewhere=place.host)
    if place and place.boot_id != _boot_id():
        return Found(because=": the machine was restarted")
    pid, start = (int(part) for part in job_id.split("-"))
    leader = _stat(pid)
    if leader is not None and leader[_START] != str(start):
        return Found()
    alive = leader is not None and leader[_STATE] != "Z"
    if leader is not None and not alive:
        _reap(pid)
    return Found(leader=pid if alive else None, others=_members(pid, start))


def send(pid: int, number: int) -> None:
    """Send a signal; a process that no longer exists is ignored."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _members(session: int, start: int) -> tuple[int, ...]:
    """Return the living processes of a session that are not older than its leader, without the leader."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == session:
            continue
        stat = _stat(int(entry.name))
        if stat and int(stat[_SESSION]) == session and stat[_STATE] != "Z" and int(stat[_START]) >= start:
            found.append(int(entry.name))
    return tuple(sorted(found))


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat, or None. The process name may contain spaces and parentheses."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace", encoding="utf-8")
    except OSError:
        return None
    before, _, after = text.rpartition(")")
    name = before.split(" ", 1)
    return [name[0], name[-1], *after.split()]


def _place(run_dir: Path) -> Place | None:
    try:
        return decode((run_dir / PLACE).read_bytes(), Place)
    except (OSError, *NOT_JSON):
        return None


def _boot_id() -> str:
    try:
        return _BOOT.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
