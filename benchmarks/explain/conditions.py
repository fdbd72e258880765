"""Put a fault into a running training from outside: processes, cgroups, network namespaces, signals, swap.

Needs root, cgroups of version 1 and iproute2. Everything is undone when the training has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CGROUPS = Path("/sys/fs/cgroup")
NAME = "llmbxfault"
NAMESPACE = NAME
ADDRESSES = {"fast": "10.93.1", "slow": "10.93.2", "relay": "10.93.3"}
HOG = """
import sys, time
busy = float(sys.argv[1])
while True:
    end = time.monotonic() + 0.02 * busy
    while time.monotonic() < end: sum(range(1000))
    if busy < 1: time.sleep(0.02 * (1 - busy))
"""
Action = dict[str, Any]


class NotRun(Exception):
    """A training failed, or what a fault needs is not on this machine."""


class Ranks:
    """The processes of a training, by the file of faults in their environment."""

    def __init__(self, file: Path) -> None:
        self.mark = f"FAULTS_FILE={file}".encode()
        self.pids: dict[int, int] = {}
        self.before = set(Path("/proc").iterdir())

    def search(self) -> None:
        """Find them."""
        for process in set(Path("/proc").iterdir()) - self.before:
            with contextlib.suppress(OSError, ValueError, IndexError):
                environ = (process / "environ").read_bytes().split(b"\0")
                program = (process / "cmdline").read_bytes().split(b"\0")
                numbers = [entry[11:] for entry in environ if entry.startswith(b"LLMBX_RANK=")]
                if self.mark in environ and numbers and b"code/train.py" in program[1]:
                    self.pids[int(numbers[0])] = int(process.name)

    def clocks(self) -> int:
        """Return how many ranks have begun to train."""
        return sum(Path(f"/proc/{pid}/cwd/step_clocks/rank-{rank}.bin").exists() for rank, pid in self.pids.items())


class Injection(threading.Thread):
    """Acts on the ranks of one training: `joining` when they start, `acting` when they begin to train."""

    def __init__(self, file: Path, ranks: int, actions: list[Action], pin: bool) -> None:
        super().__init__(daemon=True)
        self.ranks, self.count, self.actions, self.pin = Ranks(file), ranks, actions, pin
        self.ended = threading.Event()
        self.undo: list[Callable[[], object]] = []

    def run(self) -> None:
        joined: set[int] = set()
        while not self.ended.wait(0.1):
            self.ranks.search()
            for rank in set(self.ranks.pids) - joined:
                self.join_rank(rank)
                joined.add(rank)
            if self.ranks.clocks() == self.count:
                break
        threads = [threading.Thread(target=self.act, args=(action,)) for action in self.actions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def join_rank(self, rank: int) -> None:
        """Pin a rank, and let its memory be counted from the start."""
        pid = self.ranks.pids[rank]
        if self.pin:
            for task in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {rank % (os.cpu_count() or 1)})
        for action in self.actions:
            if action["do"] == "memory" and action["rank"] == rank:
                (self.group("memory") / "cgroup.procs").write_text(str(pid))

    def group(self, kind: str) -> Path:
        """Return a cgroup of this injection."""
        path = CGROUPS / kind / own_group(kind) / f"{NAME}{os.getpid()}"
        if not path.exists():
            path.mkdir()
            self.undo.append(lambda: leave(path))
        return path

    def act(self, action: Action) -> None:
        """Do what a fault says, until the training has ended."""
        if not self.ended.is_set():
            getattr(self, action["do"])(action)

    def hog(self, action: Action) -> None:
        """Other processes on the core of a rank; of all ranks without a number."""
        ranks = [action["rank"]] if action.get("rank") is not None else list(self.ranks.pids)
        for rank in ranks * action["processes"]:
            core = rank % (os.cpu_count() or 1)
            argv = ["taskset", "-c", str(core), sys.executable, "-c", HOG, str(action["busy"])]
            process = subprocess.Popen(argv)
            self.undo.append(lambda process=process: end(process))

    def quota(self, action: Action) -> None:
        """Limit the processor time of a rank, or of the ranks together."""
        group = self.group("cpu")
        (group / "cpu.cfs_quota_us").write_text(str(int(action["cores"] * 100_000)))
        if action.get("rank") is not None:
            (group / "cgroup.procs").write_text(str(self.ranks.pids[action["rank"]]))

    def stop(self, action: Action) -> None:
        """Stop a rank for a while, again and again."""
        pid = self.ranks.pids[action["rank"]]
        while not self.ended.wait(action["every_s"] - action["for_s"]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                self.ended.wait(action["for_s"])
                os.kill(pid, signal.SIGCONT)

    def memory(self, action: Action) -> None:
        """Limit the memory of a rank to what it has by itself, and a bit more or less."""
        group, most = self.group("memory"), 0
        for _ in range(10):
            time.sleep(0.2)
            lines = (group / "memory.stat").read_text().splitlines()
            most = max(most, int(dict(line.split() for line in lines)["rss"]))
        (group / "memory.limit_in_bytes").write_text(str(most + (action["beyond_mb"] << 20)))

    def disk(self, action: Action) -> None:
        """Limit how fast a rank reads from the disk."""
        device = Path(action["file"]).stat().st_dev
        group = self.group("blkio")
        limit = f"{os.major(device)}:{os.minor(device)} {int(action['mb_per_s'] * 1e6)}"
        (group / "blkio.throttle.read_bps_device").write_text(limit)
        (group / "cgroup.procs").write_text(str(self.ranks.pids[action["rank"]]))

    def relay(self, action: Action) -> None:
        """The relay is there from the start; see `network`."""

    def rate(self, action: Action) -> None:
        """The same holds for the rate of a link."""

    def close(self) -> None:
        """End the fault."""
        self.ended.set()
        self.join()
        for step in reversed(self.undo):
            with contextlib.suppress(OSError):
                step()


def own_group(kind: str) -> str:
    """Return the cgroup of this process, relative to the root."""
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    return next(path.strip("/") for _, kinds, path in lines if kind in kinds.split(","))


def leave(group: Path) -> None:
    """Remove a cgroup; what is in it goes back to the root."""
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.procs").write_text(pid)
    group.rmdir()


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that was started here."""
    process.kill()
    process.wait()


def call(*argv: str) -> None:
    """Run a command that must succeed. Raises `NotRun`."""
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotRun(f"{' '.join(argv)}: {getattr(error, 'stderr', '') or error}") from error


@contextlib.contextmanager
def network(actions: list[Action], interface: str) -> Iterator[dict[str, Any]]:
    """A namespace for the second rank, with two links or a relay to it; yields what the ranks must know."""
    relays = [action for action in actions if action["do"] == "relay"]
    rates = [action for action in actions if action["do"] == "rate"]
    remove_network()  # of a recording that was killed
    call("ip", "netns", "add", NAMESPACE)
    process = None
    try:
        call("ip", "-n", NAMESPACE, "link", "set", "lo", "up")
        if relays:
            interface = "relay"
            argv = [sys.executable, str(HERE / "relay.py"), NAMESPACE]
            argv += [str(relays[0].get("delay_ms", 0)), str(relays[0].get("lost", 0))]
            process = subprocess.Popen(argv, stdout=subprocess.PIPE)
            assert process.stdout is not None
            process.stdout.readline()
        else:
            for link in ("fast", "slow"):
                argv = ["ip", "link", "add", f"lf-{link}", "type", "veth", "peer", f"lf-{link}-n", "netns", NAMESPACE]
                call(*argv)
        for link in ("relay",) if relays else ("fast", "slow"):
            up(link, [action["mbit"] for action in rates if action["interface"] == link])
        names = [f"lf-{interface}", f"lf-{interface}-n"]
        address = f"{ADDRESSES[interface]}.1"
        yield {"namespaces": ["", NAMESPACE], "interfaces": names, "address": address}
    finally:
        if process is not None:
            end(process)
        remove_network()


def remove_network() -> None:
    """Remove the namespace and its links, if there are any."""
    names = [("netns", NAMESPACE), *(("link", f"lf-{link}") for link in ("fast", "slow"))]
    gone = [subprocess.run(["ip", kind, "del", name], check=False, capture_output=True) for kind, name in names]
    if not all(done.returncode for done in gone):
        time.sleep(0.2)


def up(link: str, rates: list[int]) -> None:
    """Give both ends of a link their addresses, and the rate if it has one."""
    for number, name, inside in ((1, f"lf-{link}", ()), (2, f"lf-{link}-n", ("-n", NAMESPACE))):
        call("ip", *inside, "addr", "add", f"{ADDRESSES[link]}.{number}/24", "dev", name)
        call("ip", *inside, "link", "set", name, "up")
        for rate in rates:
            options = ("root", "tbf", "rate", f"{rate}mbit", "burst", "256kb", "limit", "64mb")
            call("tc", *inside, "qdisc", "add", "dev", name, *options)


@contextlib.contextmanager
def preferred() -> Iterator[None]:
    """Give this process and what it starts the cores, whatever else runs on the machine.

    Linux groups processes by their session; without this a small program elsewhere gets half of a core.
    """
    group = CGROUPS / "cpu" / own_group("cpu") / f"{NAME}-preferred{os.getpid()}"
    group.mkdir()
    (group / "cpu.shares").write_text(str(1 << 18))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        leave(group)


@contextlib.contextmanager
def swap() -> Iterator[None]:
    """Swap to compressed memory, for a short time."""
    try:
        Path("/sys/block/zram0/disksize").write_text("512M")
    except OSError as error:
        raise NotRun(f"swap needs /dev/zram0: {error}") from error
    call("mkswap", "/dev/zram0")
    call("swapon", "/dev/zram0")
    try:
        yield
    finally:
        call("swapoff", "/dev/zram0")
        Path("/sys/block/zram0/reset").write_text("1")
