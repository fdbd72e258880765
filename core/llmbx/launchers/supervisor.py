"""Supervise the script of one local run, and end everything that the run started.

Started with `COMMAND` and the arguments GRACE_S REPORT LIFELINE SCRIPT. The start of every local run waits for it, so
it imports little: ctypes for prctl, and what Python has built in. contextlib alone takes half as long as all of it.

It is the parent of the script and, on Linux, the subreaper of all processes that the run starts: one that leaves its
session or loses its parent (setsid, double fork) stays a descendant (prctl(2), PR_SET_CHILD_SUBREAPER). Without /proc
it ends the script's process group.

REPORT is the file descriptor to which it writes which process the script is. LIFELINE is a pipe that only llmbx has
open for writing, or -1: its end without a byte means that llmbx has ended in whatever way, so the run must end too; a
byte releases the run (`--detach`).
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found] # the module signal takes longer to import than all the rest
import os
import sys
from time import monotonic

COMMAND = ("-I", "-S", "-c", "import sys; sys.path.insert(0, sys.argv[1]); import supervisor; supervisor.main()")
"""Options of Python, followed by the folder of this file: as an imported module it has been compiled before."""
ORPHANED = "orphaned"
"""Empty file in the run folder: llmbx ended before its run, which was stopped therefore."""
OUTLIVES = b"LLMBX_OUTLIVES_RUN="
"""Variable of processes that clean up after the run and end by themselves, for example those that remove containers."""

FIRST_S = 0.3
"""Seconds after which processes outside of the script's session are stopped: the script must know of the stop first."""
ALL_AFTER_S = 3.0
"""Seconds after the grace period at which all but the script is killed, so that the script can record its end."""
SCRIPT_AFTER_S = 30.0
"""Seconds after the grace period at which the script is killed too. All that it started is gone long before; it still
has to record the end, which a disk can hold up."""
GIVE_UP_AFTER_S = 60.0
"""Seconds after the grace period at which processes that even SIGKILL does not end (uninterruptible I/O) are left."""
TICK_S = 0.1
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER (linux/prctl.h)."""
_PARENT, _SESSION, _THREADS, _START = 1, 3, 17, 19
"""Fields of /proc/PID/stat after the name, counted from 0 (proc(5))."""


class Process:
    """A process; its id and its start (clock ticks since boot) identify it until the machine is restarted.

    `ended`: it is a zombie, and not only its first thread has ended.
    """

    __slots__ = ("ended", "parent", "pid", "session", "start")

    def __init__(self, pid: int, start: int, parent: int = 0, session: int = 0, ended: bool = False) -> None:
        self.pid, self.start, self.parent, self.session, self.ended = pid, start, parent, session, ended

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Process) and (self.pid, self.start) == (other.pid, other.start)

    def __hash__(self) -> int:
        return hash((self.pid, self.start))


def read_entry(pid: int) -> Process | None:
    """Return the process with this id, which may be a zombie; None if there is none, or without /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 (pathlib takes longer to import than this starts)
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    ended = fields[0] in (b"Z", b"X") and int(fields[_THREADS]) <= 1
    return Process(pid, int(fields[_START]), int(fields[_PARENT]), int(fields[_SESSION]), ended)


def read_process(pid: int) -> Process | None:
    """Return the process if it is alive."""
    process = read_entry(pid)
    return None if process is None or process.ended else process


def living() -> list[Process]:
    """Return all living processes of this machine, or an empty list without /proc."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208
    except OSError:
        return []
    processes = [read_process(int(name)) for name in names if name.isdigit()]
    return [process for process in processes if process is not None]


def descendants(ancestor: int) -> list[Process]:
    """Return all living descendants of a process, or an empty list without /proc."""
    children: dict[int, list[Process]] = {}
    for process in living():
        children.setdefault(process.parent, []).append(process)
    processes, queue = [], [ancestor]
    while queue:
        below = children.pop(queue.pop(), [])
        processes += below
        queue += [process.pid for process in below]
    return processes


def outlives(process: Process) -> bool:
    """Whether the process cleans up after the run (see `OUTLIVES`)."""
    try:
        with open(f"/proc/{process.pid}/environ", "rb") as file:  # noqa: PTH123
            return any(entry.startswith(OUTLIVES) for entry in file.read().split(b"\0"))
    except OSError:
        return False


def send(process: Process, number: int) -> None:
    """Send a signal to exactly this process; nothing if it has ended, even if its id is in use again.

    Raises `PermissionError` for a process of another user.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # Linux before 5.3, another system, or the process has ended
        descriptor = -1
    try:
        now = read_process(process.pid)  # after opening: from here on the descriptor means the process that was read
        if now is None or now.start != process.start:
            return
        if descriptor >= 0:
            signal.pidfd_send_signal(descriptor, number)
        else:
            os.kill(process.pid, number)
    except ProcessLookupError:
        return
    finally:
        if descriptor >= 0:
            os.close(descriptor)


class Supervisor:
    """The state of one run: its script, whether it has ended, and since when the run is being stopped."""

    def __init__(self, script: int, grace_s: float, lifeline: int) -> None:
        self.script, self.grace_s, self.lifeline = script, grace_s, lifeline
        self.ended = self.killed = False
        self.stopping: float | None = None
        self.asked: set[Process] = set()
        self.condemned: set[Process] = set()
        """All that was left at `ALL_AFTER_S` but the script, which starts others to record its end."""

    def run(self, wakeup: int) -> None:
        """Return when nothing of the run is left. `wakeup` is the descriptor that receives the numbers of signals."""
        import select

        while not self.reap():
            watched = [wakeup, *([self.lifeline] if self.lifeline >= 0 else [])]
            ready, _, _ = select.select(watched, [], [], None if self.stopping is None else TICK_S)
            if wakeup in ready:
                for number in os.read(wakeup, 4096):
                    self.on_signal(number)
            if self.lifeline in ready:
                self.on_lifeline()

    def on_signal(self, number: int) -> None:
        """Stop the run for a signal that asks to end; pass the signal for stack dumps on to the script."""
        if number == signal.SIGUSR1 and not self.ended:
            os.kill(self.script, number)
        elif number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.stop()

    def on_lifeline(self) -> None:
        """Stop watching llmbx, and stop the run unless llmbx has released it."""
        released = os.read(self.lifeline, 1)
        os.close(self.lifeline)
        self.lifeline = -1
        if not released and not self.ended:
            say("llmbx has ended, stopping its run")
            try:  # noqa: SIM105
                os.close(os.open(ORPHANED, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
            except OSError:  # a full disk: the cause is then "stopped by SIGTERM"
                pass
        if not released:
            self.stop()

    def stop(self) -> None:
        """Begin to stop the run: its script stops the ranks and records the end."""
        if self.stopping is None:
            self.stopping = monotonic()
            if not self.ended:  # not reaped yet, so the id is still the script's
                os.kill(self.script, signal.SIGTERM)
                os.kill(self.script, signal.SIGCONT)

    def reap(self) -> bool:
        """Collect ended children, stop what is due; return whether nothing is left to wait for."""
        alone = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                alone = True
                break
            if pid == 0:
                break
            if pid == self.script:
                self.ended = True
                self.killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if self.ended and not self.killed:
            self.stop()  # what the run has left behind
        if alone:
            return True
        if self.stopping is None and not self.ended:
            return False
        left = [process for process in descendants(os.getpid()) if not outlives(process)]
        if self.stopping is None:  # the ranks of a killed script continue, and can be cancelled
            return not left
        late = monotonic() - self.stopping - self.grace_s
        self.end(left, late)
        return (self.ended and not left) or late > GIVE_UP_AFTER_S

    def end(self, left: list[Process], late: float) -> None:
        """Stop these processes as far as it is time to; `late` is the time since the end of the grace period in s."""
        outside = [process for process in left if self.ended or process.session != self.script]
        if late + self.grace_s >= FIRST_S or self.ended:
            for process in set(left) - self.asked:
                if process in outside:
                    tell(process, signal.SIGTERM)
                tell(process, signal.SIGCONT)  # a stopped process gets signals when it continues
            self.asked.update(left)
        doomed = [*outside] if late >= 0 else []
        if late >= ALL_AFTER_S:
            self.condemned = self.condemned or {process for process in left if process.pid != self.script}
            doomed += [process for process in left if late >= SCRIPT_AFTER_S or process in self.condemned]
        for process in doomed:
            tell(process, signal.SIGKILL)
        if late >= 0 and not os.path.isdir(f"/proc/{os.getpid()}"):  # noqa: PTH112 (another system than Linux)
            try:  # noqa: SIM105
                os.killpg(self.script, signal.SIGKILL)
            except OSError:
                pass


def tell(process: Process, number: int) -> None:
    """Send a signal as far as it is allowed: a process that has changed its user (sudo) cannot be stopped."""
    try:  # noqa: SIM105
        send(process, number)
    except PermissionError:
        pass


def say(text: str) -> None:
    """Write a line to the output of the script, in its format; a full disk is ignored."""
    import time

    try:  # noqa: SIM105
        os.write(1, f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} llmbx: {text}\n".encode())
    except OSError:
        pass


def adopt_orphans() -> None:
    """Become the parent of all descendants that lose theirs; without effect on other systems than Linux."""
    if sys.platform == "linux":
        import ctypes

        try:  # noqa: SIM105
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        except (OSError, AttributeError):
            pass


def start(script: str, report: int) -> int:
    """Start the script in a session of its own and return its process id.

    The process id and the start of the script are written to `report`, which is closed when bash has started; if it
    cannot be started, the error number follows in a second line.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        own = read_process(os.getpid())
        os.write(report, f"{os.getpid()}-{own.start if own else 0}\n".encode())
        os.execvp("bash", ["bash", script])
    except OSError as error:
        os.write(report, f"error {error.errno}\n".encode())
    finally:
        os._exit(127)


def main() -> None:
    """Start the script and supervise it to its end."""
    grace_s, report, lifeline, script = float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    del sys.path[0]
    for descriptor in (report, lifeline):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    wakeup, signalled = os.pipe()
    os.set_blocking(signalled, False)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        if number not in (signal.SIGINT, signal.SIGHUP) or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, lambda *_: None)
    adopt_orphans()
    pid = start(script, report)
    os.close(report)
    Supervisor(pid, grace_s, lifeline).run(wakeup)
    os._exit(0)
