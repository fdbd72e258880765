"""Sample one node while its ranks run: NVML, /proc and /sys, once a second (docs/telemetry.md).

Usage: sampler.py [PID FILE [INTERVAL_S]]. It ends soon after the process PID, and appends to FILE;
by default those of the rank that started it as a companion:

    llmbx-telemetry <TAB> 1 <TAB> {facts}               begins a segment: a start of the sampler
    c <TAB> number <TAB> name <TAB> unit                a column; its values start at 0
    r <TAB> microseconds <TAB> number:change <TAB> ...  a sample: since the last, and what changed
    f <TAB> microseconds <TAB> object <TAB> {facts}     facts of a rank or of a GPU
    e <TAB> microseconds <TAB> object <TAB> text        an event
    m <TAB> name <TAB> reason                           what was not collected, and why

`number:x` means that the column has no value from now on. Microseconds count from the last sample,
before the first from the start. It runs on a node without llmbx: one file, Python 3.8 or newer and
its standard library. It reads only, and sets nothing.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import sys
import time
from typing import Any, Iterator

FORMAT = "llmbx-telemetry"
VERSION = 1
SLOW_EVERY = 10
"""Samples from one slow reading (errors, frequencies, new processes) to the next."""
THREADS = 3
"""Threads of a rank whose run delay is followed besides the first one: those that ran longest."""
EARLY = 10
"""Samples at the start, each of which searches for processes: the ranks are starting."""


class Table:
    """The columns, and the lines that are not written yet."""

    def __init__(self, path: str, facts: dict[str, Any]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        self.file = os.open(path, flags, 0o644)
        self.lines = [f"{FORMAT}\t{VERSION}\t{json.dumps(facts)}"]
        self.numbers: dict[str, int] = {}
        self.last: list[int | None] = []
        self.changes: list[str] = []
        self.named: dict[str, str] = {}
        self.at = time.monotonic_ns()

    def column(self, name: str, unit: str) -> int:
        """Return the number of a column."""
        number = self.numbers.get(name)
        if number is None:
            number = self.numbers[name] = len(self.last)
            self.last.append(0)
            self.lines.append(f"c\t{number}\t{name}\t{unit}")
        return number

    def put(self, number: int, value: int | None) -> None:
        """Set the value of a column in this sample; None: unknown."""
        last = self.last[number]
        if value == last:
            return
        self.last[number] = value
        if value is None:
            self.changes.append(f"{number}:x")
        else:
            self.changes.append(f"{number}:{value - (last or 0)}")

    def set(self, name: str, unit: str, value: int | None) -> None:
        """Set a column by its name."""
        self.put(self.column(name, unit), value)

    def row(self, now: int) -> None:
        """End a sample that was taken at `now`, in nanoseconds of the monotonic clock."""
        self.lines.append("\t".join(["r", str((now - self.at) // 1000), *self.changes]))
        self.at += (now - self.at) // 1000 * 1000
        self.changes = []

    def note(self, kind: str, name: str, text: str) -> None:
        """Add a line of facts (f) or an event (e)."""
        since = (time.monotonic_ns() - self.at) // 1000
        self.lines.append("\t".join((kind, str(since), name, " ".join(text.split()))))

    def missing(self, name: str, reason: str) -> None:
        """Say once what is not collected."""
        if name not in self.named:
            self.named[name] = reason
            self.lines.append("m\t{}\t{}".format(name, " ".join(reason.split())))

    def flush(self) -> None:
        """Append the lines to the file. A full disk ends the sampler, and nothing else."""
        if self.lines:
            os.write(self.file, ("\n".join(self.lines) + "\n").encode("utf-8", "replace"))
            self.lines = []


class Files:
    """Files of /proc and /sys that stay open between samples."""

    def __init__(self) -> None:
        self.open: dict[str, int] = {}

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if it cannot be read."""
        number = self.open.get(path)
        try:
            if number is None:
                number = self.open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(number, 32768, 0)
        except OSError:
            self.close(path)
            return None

    def close(self, path: str) -> None:
        """Forget a file."""
        number = self.open.pop(path, None)
        if number is not None:
            os.close(number)

    def number(self, path: str) -> int | None:
        """Return the integer in a file; None if there is none."""
        text = self.read(path)
        try:
            return None if text is None else int(text)
        except ValueError:
            return None


def cpu_stat(files: Files, process: str) -> str | None:
    """Return the cpu.stat of a process's cgroup, in a hierarchy of version 1 or 2."""
    text = (files.read(f"/proc/{process}/cgroup") or b"").decode("utf-8", "replace")
    for line in text.splitlines():
        _, kinds, path = line.split(":", 2)
        roots = (
            ["/sys/fs/cgroup/" + kinds, "/sys/fs/cgroup/cpu"] if "cpu" in kinds.split(",") else []
        )
        roots = roots if kinds else ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        for root in roots:
            for folder in (path, ""):  # a container may see its own cgroup as the root
                stat = os.path.join(root, folder.strip("/"), "cpu.stat")
                if b"nr_throttled" in (files.read(stat) or b""):
                    return stat
    return None


def throttled_us(stat: bytes) -> int | None:
    """Return how long a cgroup was throttled, by its cpu.stat."""
    for line in stat.splitlines():
        key, _, value = line.partition(b" ")
        if key in (b"throttled_usec", b"throttled_time"):  # nanoseconds in version 1
            return int(value) // (1 if key == b"throttled_usec" else 1000)
    return None


def received_and_sent(lines: bytes) -> list[tuple[str, list[int]]]:
    """Return name and numbers of each interface in /proc/net/dev."""
    named = [line.decode("utf-8", "replace").split(":", 1) for line in lines.splitlines()[2:]]
    return [(name.strip(), [int(word) for word in numbers.split()]) for name, numbers in named]


def retransmitted(lines: bytes) -> int | None:
    """Return how many segments were sent again, by /proc/net/snmp."""
    tcp = [line.split() for line in lines.splitlines() if line[:4] == b"Tcp:"]
    if len(tcp) != 2 or b"RetransSegs" not in tcp[0]:
        return None
    return int(tcp[1][tcp[0].index(b"RetransSegs")])


def network_of(pid: int) -> str | None:
    """Return the network namespace of a process; None if it cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def listed(path: str) -> list[str]:
    """Return the names in a folder in order; none if it cannot be read."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


# ---- the node

FLOWS = (b"nr_throttled", b"nr_periods")
PAGING = {
    b"pswpin": "swap_in",
    b"pswpout": "swap_out",
    b"oom_kill": "oom_kills",
    b"pgmajfault": "major_faults",
}
MEMORY = {b"MemAvailable": "memory_available", b"SwapFree": "swap_free", b"Dirty": "dirty"}
TICK_US = 1000000 // (os.sysconf("SC_CLK_TCK") or 100)
PORT = (
    "port_xmit_data",
    "port_rcv_data",
    "port_xmit_wait",
    "port_xmit_discards",
    "port_rcv_errors",
    "symbol_error",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
)
"""Counters of a port of InfiniBand."""
ADAPTER = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "np_cnp_sent",
    "rp_cnp_handled",
    "roce_adp_retrans",
)
"""Further ones, of the adapter."""


class Node:
    """The node itself: processors, pressure, paging, cgroup, network, disks, temperatures."""

    def __init__(self, table: Table, files: Files) -> None:
        self.table, self.files = table, files
        self.pressure = [
            name for name in ("cpu", "memory", "io") if files.read("/proc/pressure/" + name)
        ]
        if not self.pressure:
            table.missing(
                "pressure", "/proc/pressure cannot be read (kernel option CONFIG_PSI, or psi=0)"
            )
        self.cgroup = cpu_stat(files, "self")
        if self.cgroup is None:
            table.missing("cgroup", "no cpu.stat of this process's cgroup can be read")
        self.disks = [
            name
            for name in listed("/sys/block")
            if not name.startswith(("loop", "ram", "zram", "dm-", "sr"))
        ]
        self.ports = list(self._ports())
        if not self.ports:
            table.missing("ib", "/sys/class/infiniband has no port")
        zones = [
            f"/sys/class/thermal/{name}/"
            for name in listed("/sys/class/thermal")
            if name.startswith("thermal_")
        ]
        self.zones = [zone + "temp" for zone in zones if files.number(zone + "temp") is not None]
        if not self.zones:
            table.missing("temperature", "/sys/class/thermal has no zone that can be read")
        throttles = "/sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count"
        cores = range(os.cpu_count() or 0)
        self.throttles = [
            throttles % core for core in cores if files.number(throttles % core) is not None
        ]
        for path in self.throttles:
            files.close(path)
        if not self.throttles:
            table.missing(
                "cpu.thermal_throttle", "the processor has no counter of thermal throttling"
            )

    def _ports(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield object, measure, unit and file of each counter of InfiniBand and RoCE."""
        for device in listed("/sys/class/infiniband"):
            ports = f"/sys/class/infiniband/{device}/ports/"
            for port in listed(ports):
                for folder, names in (("counters", PORT), ("hw_counters", ADAPTER)):
                    for name in names:
                        path = f"{ports}{port}/{folder}/{name}"
                        if self.files.number(path) is not None:
                            unit = "4B" if name.endswith("_data") else "count"
                            yield f"ib.{device}.{port}", name, unit, path

    def sample(self) -> None:
        """Read what is read in every sample."""
        put, read = self.table.set, self.files.read
        for line in (read("/proc/stat") or b"").split(b"\n"):
            if line.startswith(b"cpu "):
                names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
                for name, ticks in zip(names, line.split()[1:9]):
                    put("cpu." + name, "us", int(ticks) * TICK_US)
            elif line.startswith(b"procs_"):
                put("cpu.procs_" + line[6:13].decode(), "count", int(line.split()[1]))
            elif line.startswith(b"ctxt"):
                put("cpu.switches", "count", int(line.split()[1]))
        for name in self.pressure:
            for line in (read("/proc/pressure/" + name) or b"").splitlines():
                kind, total = line.split(b" ", 1)[0].decode(), line.rsplit(b"total=", 1)[1]
                put(f"pressure.{name}.{kind}", "us", int(total))
        self._words("/proc/vmstat", PAGING, "paging.", "count")
        self._words("/proc/meminfo", MEMORY, "memory.", "KiB")
        if self.cgroup:
            for line in (read(self.cgroup) or b"").splitlines():
                key, value = line.split(b" ", 1)
                if key in FLOWS:
                    put("cgroup." + key.decode(), "count", int(value))
            put("cgroup.throttled", "us", throttled_us(read(self.cgroup) or b""))
        for disk in self.disks:
            words = (read(f"/sys/block/{disk}/stat") or b"").split()
            if len(words) > 10:
                put(f"disk.{disk}.read", "512B", int(words[2]))
                put(f"disk.{disk}.written", "512B", int(words[6]))
                put(f"disk.{disk}.busy", "ms", int(words[9]))
                put(f"disk.{disk}.waited", "ms", int(words[10]))
        self._network()
        for thing, name, unit, path in self.ports:
            put(f"{thing}.{name}", unit, self.files.number(path))

    def _words(self, path: str, names: dict[bytes, str], prefix: str, unit: str) -> None:
        for line in (self.files.read(path) or b"").split(b"\n"):
            key = line.split(b" ", 1)[0].rstrip(b":")
            if key in names:
                self.table.set(prefix + names[key], unit, int(line.split()[1]))

    def _network(self) -> None:
        put = self.table.set
        for name, numbers in received_and_sent(self.files.read("/proc/net/dev") or b""):
            put(f"net.{name}.received", "B", numbers[0])
            put(f"net.{name}.sent", "B", numbers[8])
            put(f"net.{name}.dropped", "count", numbers[3] + numbers[11])
        again = retransmitted(self.files.read("/proc/net/snmp") or b"")
        if again is not None:
            put("tcp.retransmitted", "count", again)

    def sample_slowly(self) -> None:
        """Read what changes rarely or costs more."""
        temperatures = [self.files.number(zone) for zone in self.zones]
        known = [value for value in temperatures if value is not None]
        if known:
            self.table.set("node.temperature", "mC", max(known))
        if self.throttles:
            counts = []
            for path in self.throttles:
                counts.append(self.files.number(path) or 0)
                self.files.close(path)  # there may be hundreds
            self.table.set("cpu.thermal_throttle", "count", sum(counts))


# ---- the ranks

SEPARATE = ("LLMBX_MASTER_ADDR", "LLMBX_MASTER_PORT", "LLMBX_NODE_RANK")
"""Variables that tell the ranks of this run and node from others on the same machine."""


class Process:
    """One rank's process: its files, and the run delay of its busiest threads."""

    def __init__(self, rank: int, pid: int) -> None:
        self.rank, self.pid, self.folder = rank, pid, f"/proc/{pid}/"
        self.threads: dict[str, tuple[int, int]] = {}
        self.delay_ns = self.ran_ns = 0
        self.cgroup: str | None = None
        self.has_own_network = network_of(pid) not in (None, network_of(os.getpid()))


class Ranks:
    """The ranks of this run on the node, each at its process that has used most processor time."""

    def __init__(self, table: Table, files: Files, env: dict[bytes, bytes]) -> None:
        self.table, self.files = table, files
        self.own = {name.encode(): env.get(name.encode()) for name in SEPARATE}
        self.seen: dict[int, int | None] = {}
        self.env: dict[int, dict[bytes, bytes]] = {}
        self.followed: dict[int, Process] = {}
        self.cgroup = cpu_stat(files, "self")

    def search(self) -> None:
        """Find new processes, and follow the one of each rank that has used most time."""
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        self.seen = {pid: rank for pid, rank in self.seen.items() if pid in pids}
        for pid in pids.difference(self.seen):
            self.seen[pid] = self._rank_of(pid)
        used: dict[int, tuple[int, int]] = {}
        for pid, rank in self.seen.items():
            if rank is not None:
                best = (self._ticks(pid), -pid)
                if rank not in used or best > used[rank]:
                    used[rank] = best
        for rank, (_, negative) in used.items():
            self._follow(rank, -negative)
        for rank in set(self.followed).difference(used):
            self._leave(rank)

    def _rank_of(self, pid: int) -> int | None:
        if pid == os.getpid():
            return None
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                text = file.read()
        except OSError:
            return None
        if b"LLMBX_RANK=" not in text:
            return None
        env = dict(entry.split(b"=", 1) for entry in text.split(b"\0") if b"=" in entry)
        rank = env.get(b"LLMBX_RANK", b"")
        if not rank.isdigit() or any(env.get(name) != value for name, value in self.own.items()):
            return None
        self.env[pid] = env
        return int(rank)

    def _ticks(self, pid: int) -> int:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                words = file.read().rsplit(b")", 1)[1].split()
            return int(words[11]) + int(words[12])
        except (OSError, IndexError):
            return -1

    def _follow(self, rank: int, pid: int) -> None:
        before = self.followed.get(rank)
        if before is None or before.pid != pid:
            if before is not None:
                self._close(before)
            self.followed[rank] = Process(rank, pid)
            self._describe(rank, pid)
        self._busiest(self.followed[rank])
        cgroup = cpu_stat(self.files, str(pid))
        self.followed[rank].cgroup = cgroup if cgroup != self.cgroup else None

    def _leave(self, rank: int) -> None:
        self._close(self.followed.pop(rank))
        for name, number in self.table.numbers.items():
            if name.startswith(f"rank{rank}."):
                self.table.put(number, None)

    def _close(self, process: Process) -> None:
        for path in [path for path in self.files.open if path.startswith(process.folder)]:
            self.files.close(path)

    def _describe(self, rank: int, pid: int) -> None:
        env = self.env.get(pid, {})
        facts: dict[str, Any] = {"pid": pid}
        for name in ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "LLMBX_LOCAL_RANK"):
            if name.encode() in env:
                facts[name] = env[name.encode()].decode("utf-8", "replace")
        for line in (self.files.read(f"/proc/{pid}/status") or b"").splitlines():
            if line.startswith((b"Cpus_allowed_list", b"Mems_allowed_list")):
                facts[line.split(b":")[0].decode()] = line.split()[-1].decode()
        self.table.note("f", f"rank{rank}", json.dumps(facts))

    def _busiest(self, process: Process) -> None:
        """Choose the threads to follow: the first one, and those that have run longest."""
        times = []
        for name in listed(process.folder + "task"):
            path = f"{process.folder}task/{name}/schedstat"
            words = (self.files.read(path) or b"").split()
            if path not in process.threads:
                self.files.close(path)
            if len(words) == 3:
                times.append((int(words[0]), int(words[1]), path))
        first = f"{process.folder}task/{process.pid}/schedstat"
        times.sort(reverse=True)
        chosen = [item for item in times if item[2] == first]
        chosen += [item for item in times if item[2] != first][:THREADS]
        threads = {path: process.threads.get(path, (ran, delay)) for ran, delay, path in chosen}
        for path in set(process.threads).difference(threads):
            self.files.close(path)
        process.threads = threads

    def sample(self) -> None:
        """Read the followed processes."""
        for process in list(self.followed.values()):
            self._sample(process, f"rank{process.rank}.")

    def _sample(self, process: Process, name: str) -> None:
        put, folder = self.table.set, process.folder
        stat = self.files.read(folder + "stat")
        if not stat:
            return
        words = stat.rsplit(b")", 1)[1].split()
        put(name + "state", "letter", words[0][0])
        put(name + "major_faults", "count", int(words[9]))
        put(name + "cpu_time", "us", (int(words[11]) + int(words[12])) * TICK_US)
        put(name + "threads", "count", int(words[17]))
        put(name + "memory", "KiB", int(words[21]) * (os.sysconf("SC_PAGE_SIZE") // 1024))
        put(name + "cpu", "number", int(words[36]))
        put(name + "blocked", "us", int(words[39]) * TICK_US)
        for path, (ran, delay) in process.threads.items():
            numbers = (self.files.read(path) or b"").split()
            if len(numbers) == 3:
                process.ran_ns += int(numbers[0]) - ran
                process.delay_ns += int(numbers[1]) - delay
                process.threads[path] = (int(numbers[0]), int(numbers[1]))
        if process.threads:
            put(name + "ran", "us", process.ran_ns // 1000)
            put(name + "run_delay", "us", process.delay_ns // 1000)
        else:
            self.table.missing("run_delay", "/proc/PID/task/TID/schedstat cannot be read")
        if process.cgroup:
            put(name + "throttled", "us", throttled_us(self.files.read(process.cgroup) or b""))
        if process.has_own_network:
            self._network(process, name)
        status = self.files.read(folder + "status") or b""
        for key, column in (
            (b"\nvoluntary_ctxt", "switches"),
            (b"\nnonvoluntary_ctxt", "preempted"),
            (b"\nVmSwap", "swap"),
        ):
            at = status.find(key)
            if at >= 0:
                value = status[status.index(b":", at) + 1 : status.index(b"\n", at + 1)].split()[0]
                put(name + column, "KiB" if column == "swap" else "count", int(value))
        for line in (self.files.read(folder + "io") or b"").splitlines():
            key, _, value = line.partition(b": ")
            if key in (b"rchar", b"wchar", b"read_bytes", b"write_bytes"):
                put(f"{name}io.{key.decode()}", "B", int(value))

    def _network(self, process: Process, name: str) -> None:
        """Read what went through the network of a rank that is not the sampler's."""
        put, read = self.table.set, self.files.read
        lines = received_and_sent(read(process.folder + "net/dev") or b"")
        for key, columns in (("received", (0,)), ("sent", (8,)), ("dropped", (3, 11))):
            total = sum(numbers[column] for _, numbers in lines for column in columns)
            put(name + "net." + key, "count" if key == "dropped" else "B", total)
        again = retransmitted(read(process.folder + "net/snmp") or b"")
        put(name + "net.retransmitted", "count", again)

    def sample_slowly(self) -> None:
        """Read the frequency of the cores on which the ranks run."""
        for process in self.followed.values():
            core = self.table.numbers.get(f"rank{process.rank}.cpu")
            if core is not None and self.table.last[core] is not None:
                path = (
                    f"/sys/devices/system/cpu/cpu{self.table.last[core]}/cpufreq/scaling_cur_freq"
                )
                frequency = self.files.number(path)
                self.files.close(path)
                if frequency is None:
                    self.table.missing("frequency", "the kernel has no cpufreq for the cores")
                    return
                self.table.set(f"rank{process.rank}.frequency", "kHz", frequency)


# ---- GPUs by NVML

NVML_SO = "libnvidia-ml.so.1"
UNSUPPORTED = 3
ERRORS = {
    2: "invalid argument",
    3: "not supported",
    4: "no permission",
    6: "not found",
    9: "the driver is not loaded",
    13: "no such function",
    15: "the GPU is lost",
}
ALL_LINKS = 0xFFFFFFFF
XID = 8
"""nvmlEventTypeXidCriticalError."""

FIELDS = (
    (186, 0, "power", "mW"),
    (82, 0, "memory_temperature", "C"),
    (74, 0, "throttled.power", "ns"),
    (75, 0, "throttled.thermal", "ns"),
    (76, 0, "throttled.sync_boost", "ns"),
    (77, 0, "throttled.board_limit", "ns"),
    (79, 0, "throttled.reliability", "ns"),
    (197, 0, "pcie.sent", "KiB"),
    (198, 0, "pcie.received", "KiB"),
    (138, ALL_LINKS, "nvlink.sent", "KiB"),
    (139, ALL_LINKS, "nvlink.received", "KiB"),
)
"""Fields of NVML in every sample: id, scope, column, unit."""

SLOW_FIELDS = (
    (3, 0, "ecc.corrected", "count"),
    (4, 0, "ecc.uncorrected", "count"),
    (94, 0, "pcie.replays", "count"),
    (38, 0, "nvlink.crc_flit", "count"),
    (45, 0, "nvlink.crc_data", "count"),
    (52, 0, "nvlink.replays", "count"),
    (59, 0, "nvlink.recoveries", "count"),
    (142, 0, "remapped.corrected", "count"),
    (143, 0, "remapped.uncorrected", "count"),
)


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = [
        ("id", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("time", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_uint),
        ("error", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    ]

    def number(self) -> int:
        """Return the value as an integer; its type is in `kind`."""
        if self.kind == 0:
            return int(ctypes.cast(ctypes.addressof(self) + 32, ctypes.POINTER(ctypes.c_double))[0])
        if self.kind in (1, 5):
            kind = ctypes.c_uint if self.kind == 1 else ctypes.c_int
            return int(kind(self.value & 0xFFFFFFFF).value)
        return int(ctypes.c_longlong(self.value).value if self.kind == 4 else self.value)


class EventData(ctypes.Structure):
    """nvmlEventData_t."""

    _fields_ = [
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class ProcessInfo(ctypes.Structure):
    """nvmlProcessInfo_t of version 2 and 3."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


DEAR_S = 0.0005
"""A call that takes longer is made with what is read rarely."""


def memory_v2() -> Any:
    """NVML's nvmlMemory_v2_t: version, total, reserved, free, used (nvml.h)."""
    memory = (ctypes.c_ulonglong * 5)()
    memory[0] = ctypes.sizeof(memory) | 2 << 24
    return memory


class Gpu:
    """One GPU: its handle, and the arrays of fields that it supports."""

    def __init__(self, number: int, handle: ctypes.c_void_p) -> None:
        self.name, self.handle = f"gpu{number}.", handle
        self.fields: list[tuple[Any, int, list[tuple[int, int, str, str]]]] = []
        self.unsupported: dict[str, int] = {}
        self.energy_s = 0.0


class Nvml:
    """The GPUs of the node that this process can see."""

    def __init__(self, table: Table, pids: dict[int, int | None]) -> None:
        self.table, self.pids = table, pids
        self.gpus: list[Gpu] = []
        self.events: ctypes.c_void_p | None = None
        try:
            self.nvml = ctypes.CDLL(NVML_SO)
        except OSError as error:
            table.missing("gpu", f"{NVML_SO} cannot be loaded: {error}")
            return
        error_code = self._call("nvmlInit_v2")
        count = ctypes.c_uint()
        error_code = error_code or self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        if error_code:
            table.missing("gpu", "NVML: " + reason(error_code))
            return
        for number in range(count.value):
            handle = ctypes.c_void_p()
            if self._call("nvmlDeviceGetHandleByIndex_v2", number, ctypes.byref(handle)) == 0:
                self.gpus.append(Gpu(number, handle))
        for gpu in self.gpus:
            self._describe(gpu)
            gpu.fields = [self._fields(gpu, FIELDS), self._fields(gpu, SLOW_FIELDS)]
        self._watch()

    def _call(self, name: str, *arguments: Any) -> int:
        try:
            return int(getattr(self.nvml, name)(*arguments))
        except AttributeError:
            return 13

    def _value(self, gpu: Gpu, function: str, kind: Any, *arguments: Any) -> Any | None:
        """Call a function that writes one value; None, and named once, if it fails."""
        if function in gpu.unsupported:
            return None
        value = kind()
        error = self._call(function, gpu.handle, *arguments, ctypes.byref(value))
        if error in (UNSUPPORTED, 13):
            gpu.unsupported[function] = error
            self.table.missing(gpu.name + function, reason(error))
        return None if error else value

    def _energy(self, gpu: Gpu) -> int | None:
        """Count the energy; the call takes 3 ms on an H100, and is then made rarely."""
        began = time.monotonic()
        value = self._value(gpu, "nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)
        gpu.energy_s = time.monotonic() - began
        return None if value is None else int(value.value)

    def _memory_used(self, gpu: Gpu) -> int | None:
        """KiB in use, as nvidia-smi prints them; drivers before 510 add what they reserve."""
        memory = self._value(gpu, "nvmlDeviceGetMemoryInfo_v2", memory_v2)
        if memory is not None:
            return int(memory[4]) // 1024
        memory = self._value(gpu, "nvmlDeviceGetMemoryInfo", ctypes.c_ulonglong * 3)
        return None if memory is None else int(memory[2]) // 1024

    def _describe(self, gpu: Gpu) -> None:
        facts: dict[str, Any] = {}
        for fact, function in (("name", "nvmlDeviceGetName"), ("uuid", "nvmlDeviceGetUUID")):
            text = ctypes.create_string_buffer(96)
            if self._call(function, gpu.handle, text, 96) == 0:
                facts[fact] = text.value.decode("utf-8", "replace")
        for fact, function in (("power_limit_mw", "nvmlDeviceGetEnforcedPowerLimit"),
                               ("power_default_mw", "nvmlDeviceGetPowerManagementDefaultLimit"),
                               ("minor", "nvmlDeviceGetMinorNumber")):  # fmt: skip
            value = self._value(gpu, function, ctypes.c_uint)
            facts[fact] = None if value is None else value.value
        for fact, clock in (("sm_max_mhz", 1), ("memory_max_mhz", 2)):
            value = ctypes.c_uint()
            error = self._call("nvmlDeviceGetMaxClockInfo", gpu.handle, clock, ctypes.byref(value))
            facts[fact] = None if error else value.value
        words = (ctypes.c_ulong * 32)()
        if self._call("nvmlDeviceGetCpuAffinity", gpu.handle, len(words), words) == 0:
            bits = 8 * ctypes.sizeof(ctypes.c_ulong)
            facts["near_cpus"] = hex(sum(word << bits * place for place, word in enumerate(words)))
        self.table.note("f", gpu.name.rstrip("."), json.dumps(facts))

    def _fields(self, gpu: Gpu, fields: tuple[tuple[int, int, str, str], ...]) -> Any:
        """Return the array for one call that reads the supported fields, with their columns."""
        supported = []
        for field in fields:
            value = (FieldValue * 1)(FieldValue(id=field[0], scope=field[1]))
            error = self._call("nvmlDeviceGetFieldValues", gpu.handle, 1, value) or value[0].error
            if error:
                self.table.missing(gpu.name + field[2], reason(error))
            else:
                supported.append(field)
        array = (FieldValue * max(1, len(supported)))(
            *[FieldValue(id=f[0], scope=f[1]) for f in supported]
        )
        return array, len(supported), supported

    def _watch(self) -> None:
        """Let NVML report Xid errors, which needs no privilege."""
        events = ctypes.c_void_p()
        if not self.gpus or self._call("nvmlEventSetCreate", ctypes.byref(events)):
            return
        errors = [
            self._call("nvmlDeviceRegisterEvents", gpu.handle, ctypes.c_ulonglong(XID), events)
            for gpu in self.gpus
        ]
        if any(errors):
            self.table.missing("xid", "NVML: " + reason(max(errors)))
        self.events = events

    def sample(self, slowly: bool) -> None:
        """Read every GPU; with `slowly` also what is read rarely."""
        for gpu in self.gpus:
            self._sample(gpu, slowly)
        while self.events is not None:
            data = EventData()
            if self._call("nvmlEventSetWait_v2", self.events, ctypes.byref(data), 0):
                break
            gpu_name = next(
                (gpu.name for gpu in self.gpus if gpu.handle.value == data.device), "gpu"
            )
            self.table.note("e", gpu_name.rstrip("."), f"Xid {data.data}")

    def _sample(self, gpu: Gpu, slowly: bool) -> None:
        put, name = self.table.set, gpu.name
        for column, clock in (("clock.sm", 1), ("clock.memory", 2)):
            value = self._value(gpu, "nvmlDeviceGetClockInfo", ctypes.c_uint, clock)
            put(name + column, "MHz", None if value is None else value.value)
        value = self._value(gpu, "nvmlDeviceGetTemperature", ctypes.c_uint, 0)
        put(name + "temperature", "C", None if value is None else value.value)
        value = self._value(gpu, "nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
        put(name + "throttle", "bits", None if value is None else value.value)
        if slowly or gpu.energy_s < DEAR_S:
            put(name + "energy", "mJ", self._energy(gpu))
        rates = self._value(gpu, "nvmlDeviceGetUtilizationRates", ctypes.c_uint * 2)
        put(name + "busy", "%", None if rates is None else rates[0])
        put(name + "memory_busy", "%", None if rates is None else rates[1])
        put(name + "memory_used", "KiB", self._memory_used(gpu))
        self._read_fields(gpu, *gpu.fields[0])
        if name + "power" in self.table.named:
            value = self._value(gpu, "nvmlDeviceGetPowerUsage", ctypes.c_uint)
            put(name + "power", "mW", None if value is None else value.value)
        if slowly:
            self._read_fields(gpu, *gpu.fields[1])
            value = self._value(gpu, "nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint)
            put(name + "power_limit", "mW", None if value is None else value.value)
            self._processes(gpu)

    def _read_fields(
        self, gpu: Gpu, array: Any, count: int, fields: list[tuple[int, int, str, str]]
    ) -> None:
        if count and self._call("nvmlDeviceGetFieldValues", gpu.handle, count, array) == 0:
            for value, (_, _, column, unit) in zip(array, fields):
                self.table.set(gpu.name + column, unit, None if value.error else value.number())

    def _processes(self, gpu: Gpu) -> None:
        """Count the processes on the GPU that belong to none of this run's ranks."""
        count, infos = ctypes.c_uint(64), (ProcessInfo * 64)()
        function = "nvmlDeviceGetComputeRunningProcesses_v3"
        error = self._call(function, gpu.handle, ctypes.byref(count), infos)
        if error:
            self.table.missing(gpu.name + "processes", reason(error))
            return
        pids = [infos[number].pid for number in range(count.value)]
        self.table.set(gpu.name + "processes", "count", len(pids))
        foreign = 0
        for rank in map(self.pids.get, pids):
            if rank is None:
                foreign += 1
            else:
                self.table.set(f"rank{rank}.gpu", "number", int(gpu.name[3:-1]))
        self.table.set(gpu.name + "foreign_processes", "count", foreign)


def reason(error: int) -> str:
    """Return what a code of NVML means."""
    return ERRORS.get(error, f"error {error}")


# ---- GPUs of AMD, by sysfs


class Amd:
    """GPUs of AMD: what their driver shows in /sys, without a library."""

    def __init__(self, table: Table, files: Files) -> None:
        self.table, self.files = table, files
        self.columns: list[tuple[str, str, str, int]] = []
        number = 0
        for card in listed("/sys/class/drm"):
            device = f"/sys/class/drm/{card}/device/"
            if (
                not card[4:].isdigit()
                or (files.read(device + "vendor") or b"").strip() != b"0x1002"
            ):
                continue
            hwmon = next((device + f"hwmon/{name}/" for name in listed(device + "hwmon")), "")
            for column, unit, path, divisor in (
                ("busy", "%", device + "gpu_busy_percent", 1),
                ("memory_used", "KiB", device + "mem_info_vram_used", 1024),
                ("power", "mW", hwmon + "power1_average", 1000),
                ("power_limit", "mW", hwmon + "power1_cap", 1000),
                ("temperature", "C", hwmon + "temp1_input", 1000),
                ("clock.sm", "MHz", hwmon + "freq1_input", 1000000),
                ("clock.memory", "MHz", hwmon + "freq2_input", 1000000),
            ):
                if files.number(path) is None:
                    table.missing(f"gpu{number}.{column}", f"{path} cannot be read")
                else:
                    self.columns.append((f"gpu{number}.{column}", unit, path, divisor))
            table.missing(f"gpu{number}.throttle", "the driver of AMD shows no reasons in /sys")
            number += 1

    def sample(self) -> None:
        """Read the GPUs."""
        for name, unit, path, divisor in self.columns:
            value = self.files.number(path)
            self.table.set(name, unit, None if value is None else value // divisor)


# ---- the sampler


class KernelLog:
    """Xid errors and kills in the kernel's log, where it may be read."""

    def __init__(self, table: Table) -> None:
        self.table, self.file = table, -1
        try:
            self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self.file, 0, os.SEEK_END)
            self.sample()
        except OSError as error:
            table.missing("kernel_log", f"/dev/kmsg: {error.strerror}")
            self.file = -1

    def sample(self) -> None:
        """Note the messages since the last sample."""
        while self.file >= 0:
            try:
                line = os.read(self.file, 8192).decode("utf-8", "replace")
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == 32:  # some messages were overwritten before they were read
                    continue
                raise
            if "NVRM: Xid" in line or "Out of memory: Killed" in line or "oom-kill" in line:
                self.table.note("e", "kernel", line.split(";", 1)[-1].splitlines()[0][:300])


class Sampler:
    """Takes samples until the watched process has ended."""

    def __init__(self, pid: int, path: str, interval_s: float) -> None:
        self.pid, self.interval_s, self.ended = pid, interval_s, False
        env = {
            name.encode(): value.encode("utf-8", "surrogateescape")
            for name, value in os.environ.items()
        }
        self.table = Table(path, facts(interval_s))
        self.files = Files()
        self.node = Node(self.table, self.files)
        self.ranks = Ranks(self.table, self.files, env)
        self.nvml = Nvml(self.table, self.ranks.seen)
        self.amd = Amd(self.table, self.files)
        self.kernel = KernelLog(self.table)
        self.poll = select.poll()
        self.descriptor = self._watch(pid)

    def _watch(self, pid: int) -> int:
        """Return a descriptor that is readable when the process ends; -1 without one."""
        try:
            descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
        except ProcessLookupError:
            self.ended = True
            return -1
        except OSError:
            return -1
        if descriptor >= 0:
            self.poll.register(descriptor, select.POLLIN)
        return descriptor

    def run(self) -> None:
        """Sample at the interval; once more at the end."""
        signal.signal(signal.SIGTERM, self._stop)
        count, due = 0, time.monotonic()
        while not self.ended:
            self.sample(count)
            count += 1
            due = max(due + self.interval_s, time.monotonic())  # missed samples stay missed
            self.wait(due)
        self.sample(SLOW_EVERY * count)

    def _stop(self, *_: Any) -> None:
        self.ended = True

    def wait(self, due: float) -> None:
        """Sleep until `due`, or until the process ends."""
        while not self.ended:
            left_s = due - time.monotonic()
            if left_s <= 0:
                break
            if self.poll.poll(left_s * 1000):
                self.ended = True
        if self.descriptor < 0 and not os.path.exists(f"/proc/{self.pid}"):
            self.ended = True

    def sample(self, count: int) -> None:
        """Take one sample. The time of its row is that at which it begins."""
        now = time.monotonic_ns()
        slowly = count % SLOW_EVERY == 0
        if slowly or count < EARLY:
            self.ranks.search()
            self.nvml.pids = self.ranks.seen
        self.nvml.sample(slowly)
        self.ranks.sample()
        self.node.sample()
        self.amd.sample()
        self.kernel.sample()
        if slowly:
            self.ranks.sample_slowly()
            self.node.sample_slowly()
            self.table.set("sampler.cpu_time", "us", int(time.process_time() * 1000000))
        self.table.row(now)
        self.table.flush()  # the last samples of a node that dies matter most


def facts(interval_s: float) -> dict[str, Any]:
    """Return what the first line says: the node, and both clocks at the same moment."""
    boot = ""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        pass
    return {
        "node": os.environ.get("LLMBX_NODE_NAME") or os.uname().nodename,
        "number": int(os.environ.get("LLMBX_NODE_RANK") or 0),
        "boot_id": boot,
        "monotonic": time.monotonic_ns() / 1e9,
        "wall": time.time(),
        "interval_s": interval_s,
        "cores": os.cpu_count(),
        "kernel": os.uname().release,
        "python": sys.version.split()[0],
    }


def main(arguments: list[str]) -> int:
    """Sample until the process has ended."""
    if not arguments and "LLMBX_COMPANION_OF" in os.environ:
        file = "telemetry/node-{}.tsv".format(os.environ.get("LLMBX_NODE_RANK", "0"))
        arguments = [os.environ["LLMBX_COMPANION_OF"], file]
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    gc.disable()
    try:
        os.setsid()  # it belongs to no rank's process group, which a launcher may wait for
    except OSError:
        pass
    interval_s = float(arguments[2]) if len(arguments) == 3 else 1.0
    folder = os.path.dirname(arguments[1])
    if folder:
        os.makedirs(folder, exist_ok=True)
    Sampler(int(arguments[0]), arguments[1], interval_s).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
