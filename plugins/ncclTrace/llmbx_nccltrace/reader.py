"""Read the lines that the engines do not count themselves: all that are not exactly one collective's record."""

from __future__ import annotations

import re
from collections.abc import Callable

from .counts import Caller, Epoch, Init, LogCounts, resolve
from .grammar import COUNTED, RECORD, address, messages

_VIA_NET = re.compile(r" via ((?:COLL)?NET/.{1,200}?)/\d+(?:\(\d+\))?(/GDRDMA)?")
_VIA_LOCAL = re.compile(r" via (P2P/direct pointer|P2P/\w+|SHM|\w+)")
_TUNING = re.compile(r"(?:(\w+)(?: \[[^\]]*\])?: )?(\d{1,18}) Bytes -> Algo (\w+) proto (\w+)")
_INIT = re.compile(r"comm (0x[0-9a-f]{1,16}) rank (\d{1,9}) nranks (\d{1,9}) cudaDev (-?\d{1,9})(?!\d)")
_SPLIT = re.compile(r"parent (0x[0-9a-f]{1,16}) (?:(?:split|child)Count (\d{1,18}) )?color (-?\d{1,18})")
_COMM_ID = re.compile(r"commId (0x[0-9a-f]+)")
_NODES = re.compile(r"nRanks \d{1,9} nNodes (\d{1,9})(?!\d)")
_VERSION = re.compile(r"\b([NR]CCL version) ?:? ?(\d[\d.]*\S*)")
"""Without a header before NCCL 2.26; RCCL has a colon since 2.22."""

_STALLED = re.compile(
    r"\[[Rr]ank ?(\d{1,9})\].{0,400}?((?:Watchdog caught collective operation timeout|Timeout at NCCL work).*)"
)
_MAX_CACHED = 20_000
_TEXT = 500

LIMIT = 1 << 16
"""Maximum length of a line in bytes."""

_TOPICS = (
    ("network", re.compile(r"Using network (.+)$")),
    ("devices", re.compile(r"NET/IB ?: Using ([^;]+)")),
    ("no_ib", re.compile(r"(NET/IB ?: No device found)")),
    ("provider", re.compile(r"NET/OFI Selected [Pp]rovider is (\w+)")),
    ("sockets", re.compile(r"NET/Socket ?: Using (.+)$")),
    ("links", re.compile(r"Pattern 4, .{0,200}?\btype ([A-Z0-9]{1,20})/")),
    ("chunk", re.compile(r"P2P Chunksize set to (\d+)$")),
)


class Reader:
    """Reads irregular lines into `counts`.

    `totals` returns the calls and bytes counted before the current line. `flush_caller` moves what an engine has
    counted of one caller into `counts`. `origin` is a prefix that distinguishes processes without a host in different
    files.
    """

    def __init__(
        self,
        counts: LogCounts,
        totals: Callable[[], tuple[int, int]],
        flush_caller: Callable[[Caller], None],
        origin: bytes = b"",
    ) -> None:
        self.counts, self.totals, self.flush_caller, self.origin = counts, totals, flush_caller, origin
        self._processes_by_header: dict[bytes, bytes] = {}
        self._handlers: dict[bytes, Callable[[bytes], None]] = {}

    def qualify(self, process: bytes) -> bytes:
        """Add the prefix of the file to a process whose line names no host."""
        return self.origin + process if self.origin and process.endswith(b"]") else process

    def read_line(self, line: bytes) -> None:
        """Read one line, without its line terminator. Of a longer one only the first `LIMIT` bytes are read."""
        if len(line) > LIMIT:
            self.counts.cut_lines += 1
            line = line[:LIMIT]
        if b"NCCL " not in line and COUNTED not in line and b"RCCL " not in line:
            if line.strip():
                self.counts.add_framework_line(line[:_TEXT].decode("utf-8", "replace"), *self.totals())
            return
        head, separator, text = line.partition(b" NCCL INFO ")
        simple = separator and b"NCCL " not in text and b"\x1b" not in line and not text.startswith(b"[")
        if simple and (process := self._processes_by_header.get(head)):
            self._info(process, text)
            return
        parts = list(messages(line))
        if simple and len(parts) == 1 and parts[0].level == b"INFO":
            self._remember(head, self.qualify(parts[0].process))
        for process, level, text in parts:
            if level == b"WARN":
                if warning := _decoded(text):  # empty if another writer interrupted it
                    self.counts.add_error(self.qualify(process), warning)
                if COUNTED in text:  # another writer's record without its header, inside the warning
                    self._records(b"", text)
            elif level:
                self._info(self.qualify(process), text)
            else:
                self._headerless(text)

    def _remember(self, head: bytes, process: bytes) -> None:
        if len(self._processes_by_header) < _MAX_CACHED:
            self._processes_by_header[head] = process

    def _headerless(self, text: bytes) -> None:
        if COUNTED in text:
            self._records(b"", text)
        elif version := _VERSION.search(_decoded(text)):
            self._version(b"", version)
        elif stalled := _STALLED.search(_decoded(text)):
            self.counts.add_error(b"[rank %s]" % stalled[1].encode(), stalled[2].strip())

    def _info(self, process: bytes, text: bytes) -> None:
        if count_again := self._handlers.get(text):
            count_again(process)
        elif COUNTED in text:
            self._records(process, text)
        elif b" via " in text and b" -> " in text:
            self._channel(process, text)
        elif b" Bytes -> " in text:
            self._tuning(process, text)
        elif b"Init COMPLETE" in text:
            self._init(process, text.decode("utf-8", "replace"))
        else:
            self._other(process, _decoded(text))

    def repeated(self, line: bytes, times: int) -> None:
        """Read one collective's line that occurred `times` times."""
        for process, _, text in messages(line):
            self._records(self.qualify(process), text, times)

    def _records(self, process: bytes, text: bytes, times: int = 1) -> None:
        matched = 0
        for record in RECORD.finditer(text):
            name, _, count, datatype, _, pointer, ranks = record.groups()
            process_of_record = process if record.start() == 0 else b""
            matched += 1
            self.counts.add_record(
                process_of_record, address(pointer), name.decode(), int(datatype), int(ranks), int(count), times
            )
        if missing := text.count(COUNTED) - matched:
            self.counts.cut[process] += missing * times

    def _repeat(self, text: bytes, count_again: Callable[[bytes], None], process: bytes) -> None:
        if len(self._handlers) < _MAX_CACHED:
            self._handlers[text] = count_again
        count_again(process)

    def _channel(self, process: bytes, raw: bytes) -> None:
        text = _decoded(raw)
        if net := _VIA_NET.search(text):
            kind = net[1] + (net[2] or "")
        elif local := _VIA_LOCAL.search(text):
            kind = local[1]
        else:
            return
        channels, users = self.counts.channels, self.counts.users.setdefault(kind, set())

        def count_again(process: bytes) -> None:
            channels[kind] += 1
            users.add(process)

        self._repeat(raw, count_again, process)

    def _tuning(self, process: bytes, raw: bytes) -> None:
        match = _TUNING.match(_decoded(raw))
        if not match:
            return
        operation, size, algorithm, protocol = match.groups()
        key, tuning = (operation, algorithm, protocol, int(size)), self.counts.tuning

        def count_again(process: bytes) -> None:
            tuning[key] += 1

        self._repeat(raw, count_again, process)

    def _init(self, process: bytes, text: str) -> None:
        match = _INIT.search(text)
        if not match or not process:
            return
        pointer, rank, ranks, device = match.groups()
        identity, split = _COMM_ID.search(text), _SPLIT.search(text)
        init = Init(int(rank), int(ranks), int(device), identity[1] if identity else None)
        if split and not identity:
            init.parent, init.branch = int(split[1], 16), f"{split[2] or 0}.{split[3]}"
            resolve(self.counts, process, init)
        caller = (process, int(pointer, 16), int(ranks))
        self.flush_caller(caller)
        self.counts.callers.setdefault(caller, []).append(Epoch(init))
        self.counts.opened[caller[:2]] = init

    def _version(self, process: bytes, match: re.Match[str]) -> None:
        version = f"{match[1]} {match[2]}"
        self.counts.add_fact("version", version)
        if process:
            self.counts.add_user(f"version {version}", process)

    def _other(self, process: bytes, text: str) -> None:
        if version := _VERSION.search(text):
            self._version(process, version)
        if nodes := _NODES.search(text):
            self.counts.nodes = max(self.counts.nodes, int(nodes[1]))
        for topic, pattern in _TOPICS:
            if match := pattern.search(text):
                self.counts.add_fact(topic, match[1].strip())
                self.counts.add_user(f"{topic} {match[1].strip()}", process)


def _decoded(text: bytes) -> str:
    return text[:_TEXT].decode("utf-8", "replace").strip()
