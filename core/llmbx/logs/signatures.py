"""Find failures in a stream of lines: by the table of signatures, and as tracebacks under any label.

The kinds of event (fatal, except the warnings, `stopped` and `nccl_lagging`):

- `out_of_memory` (`where`: gpu or host), `killed` (SIGKILL without a stated reason), `segfault`, `gpu_error`
- `nccl_error`, `nccl_misuse`, `network_error` (adapter, socket, rendezvous), `peer_lost` (another rank died first)
- `import_error`, `cache_missing` (offline, and not in the cache), `gated`, `disk_full`, `file_error`, `port_in_use`
- `container_error`, `usage_error` (of the program's options), `shared_memory`
- `exception` (the last line of a traceback), `interrupted` (KeyboardInterrupt), `rank_exit` (a rank's exit code)
- `timeout`, `preempted`, `node_fail`, `cancelled`: reported by the scheduler; `stopped`: other ranks are ended
- `nccl_warning`, and those of the notices; `nccl_lagging`: a watchdog names the ranks that others wait for

`timeline` says which of them is the cause of a failure.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from functools import cache
from itertools import islice

from ..model.failure import Failure
from ..model.step import Event
from .literals import Filter, skeleton_of
from .origin import Origin, origin, unwrapped, without_times
from .printed import whole
from .signature_table import BY, Notice, Role, Signature, match, notices, signatures, table_filter
from .timeline import failure

MAX_EVENTS = 32
"""Maximum number of events with the same text but for numbers: a thousand ranks print the same failure."""

MOST = 4096
"""Maximum number of events."""

MAX_TEXT = 500
"""Maximum length of an event's text, in characters."""

FINISHED = "finished"
"""Kind of the event that marks the end of the training loop; later failures have the fact `after` = "finished"."""

TRACEBACK = "Traceback (most recent call last)"

_QUIET: tuple[Role, ...] = ("detail", "notice", "precursor", "stopped")
"""Roles of the events that are not fatal; `cancelled` is, although the rank is only stopped."""

_HOST = re.compile(
    r"DefaultCPUAllocator|create a primitive|\bMemoryError|bad_alloc|Cannot allocate"
    r"|(?i:oom[-_ ]kill)|: Out Of|Killed pro|stepd"
)
_DEVICE = re.compile(r"\bhca (\w+)")
_SHELL = re.compile(r"(?:sh|script) ?: \S{1,20} \d+ ?: {1,4}\d{1,9} (?P<end>\S.{2,60}?)(?:\s\s|\()")
"""A shell's report of a job: what stands before how it ended is the path of the shell's script."""
_EXIT = re.compile(r"exit ?code\s*:? (-?\d+)")
_LAST = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: .*)?$")
_EXCEPTION = re.compile(r"^(?P<type>(?:[a-z_]\w*\.){0,8}[A-Z]\w*(?:Error|Exception|Exit|Interrupt)): ")
_WHAT = re.compile(r"^\s*what\(\): +(.+)")
"""What C++ prints of an uncaught exception, after `terminate called`."""

_HARMLESS = ("Exception ignored in", "--- Logging error ---")
_IN_BETWEEN = ("During handling of the above", "The above exception was")
_TEARDOWN = re.compile(
    r"in (?:_run_finalizers|_cleanup|__del__|_exit_function|_shutdown|_python_exit)\b|atexit|resource_tracker\.py"
)
_LAGGING = re.compile(r"\[(\d{1,7}(?:, \d{1,7})*)\]|Rank (\d{1,7}) failed|/task:(\d{1,7})")
_QUOTES = re.compile(r"printing \w{1,20} log file:?$")
_GROUP = "  + Exception Group "

_BEFORE = {"Exception in thread": "thread", "The above exception was": "wraps"}
"""What Python prints before a traceback, and the fact of its event: of a thread, whose end the process survives, and
of an exception that the one before it has caused.
"""

_REMOTE = ("Original ", "Remote ")
_OF_RANK = re.compile(r"\(RANK (\d{1,7})\)$")
_FIELD = re.compile(r"^\s*(host|rank|exitcode|traceback)\s+: (.*)$")
_MAX_TRACEBACK = 4000
_MAX_WAIT = 10_000
"""Lines after which what is still waited for (the end of a traceback that was cut, a detail) is given up."""

_LONGEST_SUMMARY = 12


class _Traceback:
    """An open traceback: how many lines it has, whether it comes from the end of the interpreter, and its facts."""

    def __init__(self, origin: Origin, harmless: bool, group: bool, **facts: int) -> None:
        self.origin, self.harmless, self.group, self.facts = origin, harmless, group, facts
        self.lines = 0


class Signatures:
    """Finds failures in a stream of clean lines. Use one object per log and feed it every line."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], int] = {}
        self._made = 0
        self._open: dict[str, _Traceback] = {}
        self._harmless: set[str] = set()
        self._before: dict[str, str] = {}
        self._detail: set[str] = set()
        self._summary: dict[str, str] | None = None
        self._quoting: str | None = None
        self._waits = False
        self._waited = 0
        self._previous = ""
        self._finished = False

    def feed(self, line: str) -> list[Event]:
        """Return the events found in one line."""
        if not self._waits and _is_quiet(line):
            self._previous = line
            return []
        self._waited = self._waited + 1 if self._waits else 0
        if self._waited > _MAX_WAIT:
            self._give_up()
        events = self._look(line)
        self._waits = bool(self._open or self._detail) or self._summary is not None or self._quoting is not None
        self._previous = line
        return events

    def _give_up(self) -> None:
        self._open.clear()
        self._detail.clear()
        self._summary = self._quoting = None
        self._waited = 0

    @property
    def waits(self) -> bool:
        """Whether the next line must be read whatever it says: a traceback or the like is open."""
        return self._waits

    @staticmethod
    def first_failure(
        events: Sequence[Event], later_steps: Sequence[int] = (), stepped: bool = False
    ) -> Failure | None:
        """The first failure among the events of a log, in its order; None if the run survived all.

        `later_steps` is the number of training steps after each event (none: unknown), `stepped` whether a step was
        made at all: before the first one, a network that cannot be connected is worth a retry elsewhere.
        """
        return failure(events, later_steps, stepped)

    @staticmethod
    def notices() -> Sequence[Notice]:
        """What events that are no failures mean for a run, in the order of docs/checks.md."""
        return notices()

    def finished(self) -> None:
        """Mark the training loop as successfully finished: later failures happened after it."""
        self._finished = True

    def _look(self, line: str) -> list[Event]:
        return [event for text in unwrapped(line) for event in self._text_of(text)]

    def _text_of(self, line: str) -> list[Event]:
        if TRACEBACK in line:
            return self._begin(line)
        if self._open and (label := self._label(line)) is not None:
            return self._traceback(label, line)
        if self._summary is None and self._quoting is None and not self._detail and _is_quiet(line):
            return []
        here = origin(line)
        if self._summary is not None:
            return self._summarize(here)
        if self._detail and (label := without_times(here.label)) in self._detail:
            self._detail.discard(label)
            return self._event(match(here.text) or _DETAIL, here)
        return self._line(here)

    def _line(self, here: Origin) -> list[Event]:
        """The events of a line outside of tracebacks."""
        if any(sign in here.text for sign in _HARMLESS):
            self._harmless.add(without_times(here.label))
            return []
        before = next((fact for sign, fact in _BEFORE.items() if here.text.startswith(sign)), None)
        if before is not None and here.text.endswith(":"):
            self._before[without_times(here.label)] = before
            return []
        if here.text.startswith("Last error:"):
            self._detail.add(without_times(here.label))
            return []
        if here.text.startswith("Root Cause (first observed failure)"):
            self._summary = {}
            return []
        if self._quoting is not None or _QUOTES.search(here.text):
            return self._quote(here)
        if signature := match(here.text):
            return self._event(signature, here)
        if thrown := _WHAT.match(here.text):
            return self._event(match(thrown[1]) or _RAISED, dataclasses.replace(here, text=thrown[1]))
        if raised := _EXCEPTION.match(here.text):
            return self._event(_RAISED, here, exception=raised["type"])
        return []

    def _begin(self, line: str) -> list[Event]:
        """Open a traceback: what stands before its first line is the label of its writer."""
        head = line[: line.index(TRACEBACK)]
        group = head.endswith(_GROUP)
        head = head.removesuffix(_GROUP)
        for word in _REMOTE:
            head = head.removesuffix(word)
        key = without_times(head)
        harmless = key in self._harmless or any(sign in self._previous for sign in _HARMLESS)
        self._harmless.discard(key)
        fact = self._before.pop(key, None)
        here = origin(line, head)
        if of_rank := _OF_RANK.search(line):
            here = dataclasses.replace(here, rank=whole(of_rank[1]))
        self._open[key] = _Traceback(here, harmless, group, **({fact: 1} if fact else {}))
        return []

    def _label(self, line: str) -> str | None:
        """The label of the open traceback that the line belongs to; the longest one."""
        text = without_times(line[:300])
        lengths = sorted({len(label) for label in self._open}, reverse=True)
        return next((text[:length] for length in lengths if text[:length] in self._open), None)

    def _traceback(self, label: str, line: str) -> list[Event]:
        opened = self._open[label]
        opened.lines += 1
        self._waited = 0
        text = self._text(label, line)
        text = text.lstrip().removeprefix("| ") if opened.group else text
        if text.startswith("+") or ((text[:1].isspace() or not text) and opened.lines < _MAX_TRACEBACK):
            opened.harmless = opened.harmless or _TEARDOWN.search(text) is not None
            return []
        last = _LAST.match(text)
        if last is None and label == "" and opened.lines < _MAX_TRACEBACK and origin(line).label:
            return self._line(origin(line))  # a line of another writer, who has a label
        del self._open[label]
        if last is None or text.startswith(_IN_BETWEEN) or opened.harmless:
            return []
        here = Origin(label, text, opened.origin.rank, opened.origin.node, opened.origin.time or origin(line).time)
        if last["type"] in ("KeyboardInterrupt", "SystemExit"):
            return self._event(_INTERRUPTED, here, exception=last["type"])
        return self._event(match(text) or _RAISED, here, exception=last["type"], **opened.facts)

    def _text(self, label: str, line: str) -> str:
        """The line after its label, whose times may be longer or shorter than in the first line."""
        if "\0" not in label:
            return line[len(label) :]
        text = without_times(line)[len(label) :]
        return line[len(line) - len(text) :] if "\0" not in text else text

    def _summarize(self, here: Origin) -> list[Event]:
        """The event of torchrun's root cause, whose rank, host and exit code are on lines of their own."""
        fields = self._summary or {}
        if field := _FIELD.match(here.text):
            fields[field[1]] = field[2].strip()
        fields["#"] = fields.get("#", "") + "."
        self._summary = fields
        if not (here.text.startswith("=====") or len(fields["#"]) > _LONGEST_SUMMARY):
            return []
        self._summary = None
        rank = re.match(r"\d{1,7}", fields.get("rank", ""))
        if rank is None:
            return []
        reason = fields.get("traceback", "")
        text = f"exitcode: {fields.get('exitcode', 'unknown')}" + (f", {reason}" if reason.startswith("Signal") else "")
        node = fields.get("host", "").partition(".")[0] or None
        origin = Origin("", text, whole(rank[0]), node)
        return self._event(match(text) or _EXITED, origin, root=1)

    def _quote(self, here: Origin) -> list[Event]:
        """Events of a tool that quotes another log: the reason is the first line above the level of information."""
        if begins := _QUOTES.search(here.text):
            self._quoting = here.text[: begins.start()]
            return []
        prefix = self._quoting or ""
        quoted = here.text[len(prefix) :] if here.text.startswith(prefix) else ""
        if not quoted.startswith("   "):
            self._quoting = None
            return self._line(here)
        text = quoted.strip()
        if text.startswith(("[INFO]", "[WARN]", "#")):
            return []
        self._quoting = None
        signature = match(text)
        kind = signature if signature is not None and signature.role == "cause" else _CONTAINER
        return self._event(kind, dataclasses.replace(here, text=text), quoted=1)

    def _event(self, signature: Signature, here: Origin, **facts: str | int | float) -> list[Event]:
        kind, text = signature.kind, here.text.strip()
        if report := _SHELL.search(text):
            text = report["end"]
        key = (kind, re.sub(r"\d+", "#", text[:80]))
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._seen[key] > MAX_EVENTS or self._made >= MOST:
            return []
        self._made += 1
        if self._finished:
            facts["after"] = FINISHED
        rank = here.rank
        if kind == "nccl_lagging" and (named := _LAGGING.search(text)):
            ranks = next(filter(None, named.groups())).split(", ")
            facts |= {BY: rank} if rank is not None else {}
            rank = whole(ranks[0]) if len(ranks) == 1 else None
            facts["ranks"] = ",".join(islice(ranks, MAX_EVENTS))
        facts |= _facts(kind, text)
        fatal = signature.role not in _QUIET or kind == "cancelled"
        event = Event(
            kind=kind, text=text[:MAX_TEXT], rank=rank, facts=facts,
            fatal=fatal and kind != "nccl_lagging" and "thread" not in facts,
            node=here.node, time=here.time,
        )  # fmt: skip
        return [event]


_RAISED = Signature("exception", "cause", "")
_INTERRUPTED = Signature("interrupted", "stopped", "")
_EXITED = Signature("rank_exit", "end", "")
_CONTAINER = Signature("container_error", "cause", "")
_DETAIL = Signature("nccl_warning", "detail", "")


_BEGINNINGS = (TRACEBACK, "what():", *_HARMLESS, *_BEFORE, "Last error:", "Root Cause (first observed failure)")
"""What the lines have after which others are read."""


@cache
def _others() -> Filter:
    """The filter of the patterns that are not in the table."""
    return Filter((*map(re.escape, _BEGINNINGS), _QUOTES.pattern, _EXCEPTION.pattern))


def may_fail(skeleton: bytes) -> bool:
    """Whether a signature may match a line with this skeleton, or a traceback or the like begin in it."""
    return bool(table_filter().places(skeleton) or _others().places(skeleton))


def only_notices(skeleton: bytes) -> bool:
    """Whether nothing but a notice may match a line with this skeleton: no more than `MAX_EVENTS` of them are kept."""
    roles = {signatures()[place].role for place in table_filter().places(skeleton)}
    return roles == {"notice"} and not _others().places(skeleton)


def _is_quiet(line: str) -> bool:
    return not may_fail(skeleton_of(line))


def _facts(kind: str, text: str) -> dict[str, str | int | float]:
    if kind == "out_of_memory":
        return {"where": "host" if _HOST.search(text) else "gpu"}
    if kind == "network_error" and (device := _DEVICE.search(text)):
        return {"device": device[1]}
    if kind in ("rank_exit", "segfault") and (code := _EXIT.search(text)):
        return {"exit_code": whole(code[1])}
    return {}
