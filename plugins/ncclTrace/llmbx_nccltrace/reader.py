"""Reads what the engines do not count themselves: every line that is not one whole collective's record."""

from __future__ import annotations

import re
from collections.abc import Callable

from .grammar import COUNTED, RECORD, address, messages
from .tally import Caller, Epoch, Init, Tally, resolve

_VIA_NET = re.compile(r" via ((?:COLL)?NET/.+?)/\d+(?:\(\d+\))?(/GDRDMA)?")
_VIA_LOCAL = re.compile(r" via (P2P/direct pointer|P2P/\w+|SHM|\w+)")
_TUNING = re.compile(r"(?:(\w+)(?: \[[^\]]*\])?: )?(\d+) Bytes -> Algo (\w+) proto (\w+)")
_INIT = re.compile(r"comm (0x[0-9a-f]+) rank (\d+) nranks (\d+) cudaDev (-?\d+)")
_SPLIT = re.compile(r"parent (0x[0-9a-f]+) (?:(?:split|child)Count (\d+) )?color (-?\d+)")
_COMM_ID = re.compile(r"commId (0x[0-9a-f]+)")
_NODES = re.compile(r"nRanks \d+ nNodes (\d+)")
_VERSION = re.compile(r"\b((?:NCCL|RCCL) version [\d.]+\S*)")
_STALLED = re.compile(r"\[[Rr]ank ?(\d+)\].*?((?:Watchdog caught collective operation timeout|Timeout at NCCL work).*)")
_MOST_KNOWN = 20_000
_TEXT = 500

_TOPICS = (
    ("network", re.compile(r"Using network (.+?)\s*$")),
    ("devices", re.compile(r"NET/IB ?: Using (.+?)(?:;|$)")),
    ("no_ib", re.compile(r"(NET/IB ?: No device found)")),
    ("provider", re.compile(r"NET/OFI Selected [Pp]rovider is (\w+)")),
    ("sockets", re.compile(r"NET/Socket ?: Using (.+?)\s*$")),
)


class Reader:
    """Reads odd lines into a tally.

    `totals` says how many calls and bytes had been counted before the present line, `settle` moves what an engine has
    counted of one caller so far into the tally. `origin` tells processes without a host in several files apart.
    """

    def __init__(
        self,
        tally: Tally,
        totals: Callable[[], tuple[int, int]],
        settle: Callable[[Caller], None],
        origin: bytes = b"",
    ) -> None:
        self.tally, self.totals, self.settle, self.origin = tally, totals, settle, origin
        self._heads: dict[bytes, bytes] = {}
        self._known: dict[bytes, Callable[[bytes], None]] = {}

    def named(self, who: bytes) -> bytes:
        """Who, told apart from those in other files where the line names no host."""
        return self.origin + who if self.origin and who.endswith(b"]") else who

    def odd(self, line: bytes) -> None:
        """Read one line without its end."""
        if b"NCCL " not in line and COUNTED not in line:
            if line.strip():
                self.tally.mark(line[:_TEXT].decode("utf-8", "replace"), *self.totals())
            return
        head, found, text = line.partition(b" NCCL INFO ")
        if found and b"NCCL " not in text and (who := self._heads.get(head)):
            self._info(who, text)
            return
        said = list(messages(line))
        if found and len(said) == 1 and said[0].level == b"INFO":
            self._remember(head, self.named(said[0].who))
        for who, level, text in said:
            if level == b"WARN":
                self.tally.error(self.named(who), _decoded(text))
                if COUNTED in text:  # another writer's record, whose header was cut, in the middle of the warning
                    self._records(b"", text)
            elif level:
                self._info(self.named(who), text)
            else:
                self._unannounced(text)

    def _remember(self, head: bytes, who: bytes) -> None:
        if len(self._heads) < _MOST_KNOWN and b"\x1b" not in head:
            self._heads[head] = who

    def _unannounced(self, text: bytes) -> None:
        if COUNTED in text:
            self._records(b"", text)
        elif version := _VERSION.search(_decoded(text)):
            self.tally.fact("version", version[1])
        elif stalled := _STALLED.search(_decoded(text)):
            self.tally.error(b"[rank %s]" % stalled[1].encode(), stalled[2].strip())

    def _info(self, who: bytes, text: bytes) -> None:
        if again := self._known.get(text):
            again(who)
        elif COUNTED in text:
            self._records(who, text)
        elif b" via " in text and b" -> " in text:
            self._channel(who, text)
        elif b" Bytes -> " in text:
            self._tuning(who, text)
        elif b"Init COMPLETE" in text:
            self._init(who, text.decode("utf-8", "replace"))
        else:
            self._other(who, _decoded(text))

    def repeated(self, line: bytes, times: int) -> None:
        """Read one collective's line that occurred so many times."""
        for who, _, text in messages(line):
            self._records(self.named(who), text, times)

    def _records(self, who: bytes, text: bytes, times: int = 1) -> None:
        found = 0
        for record in RECORD.finditer(text):
            name, count, datatype, pointer, ranks = record.groups()
            speaker = who if record.start() == 0 else b""
            found += 1
            self.tally.record(speaker, address(pointer), name.decode(), int(datatype), int(ranks), int(count), times)
        if missing := text.count(COUNTED) - found:
            self.tally.cut[who] += missing * times

    def _repeat(self, text: bytes, again: Callable[[bytes], None], who: bytes) -> None:
        if len(self._known) < _MOST_KNOWN:
            self._known[text] = again
        again(who)

    def _channel(self, who: bytes, raw: bytes) -> None:
        text = _decoded(raw)
        if net := _VIA_NET.search(text):
            kind = net[1] + (net[2] or "")
        elif local := _VIA_LOCAL.search(text):
            kind = local[1]
        else:
            return
        channels, places = self.tally.channels, self.tally.places.setdefault(kind, set())

        def again(who: bytes) -> None:
            channels[kind] += 1
            places.add(who)

        self._repeat(raw, again, who)

    def _tuning(self, who: bytes, raw: bytes) -> None:
        found = _TUNING.match(_decoded(raw))
        if not found:
            return
        operation, size, algorithm, protocol = found.groups()
        key, tuning = (operation, algorithm, protocol, int(size)), self.tally.tuning

        def again(who: bytes) -> None:
            tuning[key] += 1

        self._repeat(raw, again, who)

    def _init(self, who: bytes, text: str) -> None:
        found = _INIT.search(text)
        if not found or not who:
            return
        pointer, rank, ranks, device = found.groups()
        identity, split = _COMM_ID.search(text), _SPLIT.search(text)
        init = Init(int(rank), int(ranks), int(device), identity[1] if identity else None)
        if split and not identity:
            init.parent, init.branch = int(split[1], 16), f"{split[2] or 0}.{split[3]}"
            resolve(self.tally, who, init)
        caller = (who, int(pointer, 16), int(ranks))
        self.settle(caller)
        self.tally.callers.setdefault(caller, []).append(Epoch(init))
        self.tally.opened[caller[:2]] = init

    def _other(self, who: bytes, text: str) -> None:
        if nodes := _NODES.search(text):
            self.tally.nodes = max(self.tally.nodes, int(nodes[1]))
        for topic, pattern in _TOPICS:
            if found := pattern.search(text):
                self.tally.fact(topic, found[1].strip())
                self.tally.place(f"{topic} {found[1].strip()}", who)


def _decoded(text: bytes) -> str:
    return text[:_TEXT].decode("utf-8", "replace").strip()
