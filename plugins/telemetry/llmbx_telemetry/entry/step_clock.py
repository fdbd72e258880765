"""When each step of a rank began, and how long it loaded data, computed, waited and updated.

In synchronous training every rank takes as long as the slowest one. What tells them apart is how
long each works before the ranks meet, and how long it waits there: the slow rank is the one that
waits least.

A program needs two lines: `clock = step_clock.of_torch(folder)` before the training, and `with
clock.step(number):` around each step. The clock sees the data loaders, the optimizers and, on CPUs,
the collectives of PyTorch by itself. On GPUs `with clock.meeting():` around the reduction of the
gradients measures the wait there, by CUDA events. `LLMBX_STEP_CLOCKS=0` disables it.

`step_clocks/rank-N.bin` has a magic text, the length of a JSON object in four bytes, the object,
and 40 bytes a step: its number, its start in nanoseconds of the monotonic clock, and `COLUMNS` in
microseconds, little-endian. The largest integer means that a duration is unknown.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import platform
import struct
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llmbx.entry import marks, rank

FOLDER = "step_clocks"
"""In the run folder."""
MAGIC = b"LLMBXSC1"
COLUMNS = ("data", "compute", "before", "wait", "communication", "optimizer", "total")
"""Durations of a step: `data` loading; `compute` before the optimizer, without data and
communication; `before` the ranks meet, and `wait` where they do: in the reduction of the gradients
if it is known, else in the first communication; all `communication`; the `optimizer`; the whole
step. On GPUs, data is time of the host, in which the GPU may work, and `compute` has the
communication inside the passes.
"""
RECORD = struct.Struct("<Iq7I")
UNKNOWN = 0xFFFFFFFF
WRITTEN_EVERY_S = 5.0
MOST_PENDING = 16
"""Steps whose GPU events may be outstanding; older ones are dropped."""

Span = tuple[Any, Any]
"""Two moments of one timer."""


class HostTimer:
    """Moments of the host's monotonic clock, in nanoseconds."""

    device = "cpu"

    def now(self) -> Any:
        """Return this moment; None if it cannot be measured."""
        return time.monotonic_ns()

    def reached(self, moment: Any) -> bool:
        """Whether the moment has passed."""
        return True

    def reach(self, moment: Any) -> None:
        """Wait until the moment has passed."""

    def ns(self, span: Span) -> int:
        """Return the time between two moments."""
        return int(span[1] - span[0])


class CudaTimer(HostTimer):
    """Moments in the current stream of the GPU: events, which do not make the host wait."""

    device = "cuda"

    def __init__(self) -> None:
        import torch

        self._cuda = torch.cuda

    def now(self) -> Any:
        if self._cuda.is_current_stream_capturing():
            return None  # an event in a graph has no time
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def reached(self, moment: Any) -> bool:
        return bool(moment.query())

    def reach(self, moment: Any) -> None:
        moment.synchronize()

    def ns(self, span: Span) -> int:
        return int(span[0].elapsed_time(span[1]) * 1e6)


class Step:
    """What happened in one step: moments of a timer, except for `start_ns` and `data_ns`."""

    def __init__(self, number: int, timer: HostTimer) -> None:
        self.number, self.start_ns, self.data_ns = number, time.monotonic_ns(), 0
        self.start = self.end = timer.now()
        self.meetings: list[Span] = []
        self.waits: list[Span] = []
        self.updates: list[Span] = []

    def durations(self, timer: HostTimer, sees_waits: bool) -> list[int | None]:
        """Return the columns in nanoseconds; None: unknown."""
        met = self.meetings[:1]
        if met and sees_waits:
            (first, last) = met[0]
            met = [span for span in self.waits if first <= span[0] <= last] or met
        met = met or self.waits[:1]
        until = self.updates[0][0] if self.updates else self.end
        apart = [span for span in self.waits if span[1] <= until] if sees_waits else self.meetings
        worked = timer.ns((self.start, until)) - sum(map(timer.ns, apart))
        on_host = timer.device == HostTimer.device
        return [
            self.data_ns if self.data_ns or sees_waits else None,
            worked - (self.data_ns if on_host else 0) if self.updates else None,
            timer.ns((self.start, met[0][0])) if met else None,
            sum(map(timer.ns, met)) if met else None,
            sum(map(timer.ns, self.waits)) if sees_waits else None,
            sum(map(timer.ns, self.updates)) if self.updates else None,
            timer.ns((self.start, self.end)),
        ]


class StepClock:
    """Writes a record for each step. Between steps, what it is notified of is ignored."""

    def __init__(self, folder: Path | None, timer: HostTimer, **facts: Any) -> None:
        self.timer, self.sees_waits = timer, False
        self.marks: marks.Marks | None = None
        self._compiler_seen = False
        self._now: Step | None = None
        self._pending: deque[Step] = deque()
        self._file, self._flushed = None, 0.0
        if folder is not None:
            number = rank.this().number
            path = folder / FOLDER / f"rank-{number}.bin"
            path.parent.mkdir(exist_ok=True)
            facts |= {"rank": number, "columns": COLUMNS, "device": timer.device, **_where()}
            head = json.dumps(facts).encode()
            self._file = path.open("wb")
            self._file.write(MAGIC + struct.pack("<I", len(head)) + head)
            atexit.register(self.close)

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Measure one step."""
        self.begin(number)
        try:
            yield
        finally:
            self.end()

    def begin(self, number: int) -> None:
        """Begin a step; one that is in progress ends."""
        self.end()
        if self.marks is not None and not self._compiler_seen:
            self._compiler_seen = marks.see_compilation(self.marks)
        if self._file is not None:
            self._now = Step(number, self.timer)
            self._now = None if self._now.start is None else self._now

    def end(self) -> None:
        """End the step, and write those whose moments have all passed."""
        if self._now is None:
            return
        self._now.end = self.timer.now()
        if self._now.end is not None:
            self._pending.append(self._now)
        self._now = None
        self._write()

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Measure the loading of data."""
        began = time.monotonic_ns()
        try:
            yield
        finally:
            if self._now is not None:
                self._now.data_ns += time.monotonic_ns() - began

    @contextlib.contextmanager
    def meeting(self) -> Iterator[None]:
        """Measure the communication that tells the ranks apart: the reduction of the gradients."""
        yield from self._span("meetings")

    @contextlib.contextmanager
    def updating(self) -> Iterator[None]:
        """Measure the optimizer."""
        yield from self._span("updates")

    def _span(self, kind: str) -> Iterator[None]:
        began = self.timer.now()
        try:
            yield
        finally:
            if self._now is not None:
                span = (began, self.timer.now())
                if None not in span:
                    getattr(self._now, kind).append(span)

    def waited(self, began_ns: int) -> None:
        """Note that the host has waited for a communication since `began_ns`."""
        if self._now is not None:
            self._now.waits.append((began_ns, time.monotonic_ns()))

    def close(self) -> None:
        """Write what is left, and stop measuring."""
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self.end()
            if self._pending:
                self.timer.reach(self._pending[-1].end)
                self._write()
            if self._file is not None:
                self._file.close()
        if self.marks is not None:
            self.marks.close()
        self._file = None

    def _write(self) -> None:
        """A full disk, or a GPU that has failed, must not end the training with another error."""
        while self._pending:
            if len(self._pending) <= MOST_PENDING and not self.timer.reached(self._pending[0].end):
                break
            step = self._pending.popleft()
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                durations = step.durations(self.timer, self.sees_waits)
                columns = [
                    UNKNOWN if ns is None else min(max(0, ns) // 1000, UNKNOWN - 1)
                    for ns in durations
                ]
                assert self._file is not None
                self._file.write(RECORD.pack(step.number, step.start_ns, *columns))
        if time.monotonic() - self._flushed > WRITTEN_EVERY_S and self._file is not None:
            self._flushed = time.monotonic()
            with contextlib.suppress(OSError, ValueError):
                self._file.flush()
            if self.marks is not None:
                self.marks.flush()


def enabled() -> bool:
    """Whether steps are to be measured."""
    return os.environ.get("LLMBX_STEP_CLOCKS", "") != "0"


def of_host(folder: Path) -> StepClock:
    """Return a clock of steps that knows only what it is told."""
    return StepClock(folder if enabled() else None, HostTimer())


def of_torch(folder: Path) -> StepClock:
    """Return a clock that sees PyTorch's data loaders, optimizers and, on CPUs, waits by itself."""
    import torch

    if not enabled():
        return StepClock(None, HostTimer())
    cuda = torch.cuda.is_available()
    facts = {"gpu_uuid": _uuid() if cuda else None, "threads": torch.get_num_threads()}
    clock = StepClock(folder, CudaTimer() if cuda else HostTimer(), cores=_cores(), **facts)
    clock.marks = marks.of_torch(folder / FOLDER / f"rank-{rank.this().number}.marks")
    _see_loading(clock)
    _see_updates(clock)
    if not cuda and torch.distributed.is_available():
        _see_waits(clock)
    return clock


def _cores() -> int | None:
    """The number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return None if affinity is None else len(affinity(0))


def _uuid() -> str | None:
    """The UUID of the rank's GPU, as the driver prints it; None with an old PyTorch."""
    import torch

    number = torch.cuda.current_device()
    visible = torch.cuda.device_count()
    if visible > 1 and number == 0:
        number = min(rank.this().local, visible - 1)  # the program has not chosen its device yet
    uuid = getattr(torch.cuda.get_device_properties(number), "uuid", None)
    return None if uuid is None else f"GPU-{uuid}"


def _see_loading(clock: StepClock) -> None:
    from torch.utils.data import dataloader

    load = dataloader._BaseDataLoaderIter.__next__

    def measured(self: Any) -> Any:
        with clock.loading():
            return load(self)

    dataloader._BaseDataLoaderIter.__next__ = measured


def _see_updates(clock: StepClock) -> None:
    from torch.optim import optimizer

    began: list[Any] = []

    def before(*_: Any) -> None:
        began.append(clock.updating())
        began[-1].__enter__()

    def after(*_: Any) -> None:
        if began:
            began.pop().__exit__(None, None, None)

    optimizer.register_optimizer_step_pre_hook(before)
    optimizer.register_optimizer_step_post_hook(after)


def _see_waits(clock: StepClock) -> None:
    """Measure how long the host waits for collectives and messages: gloo has nothing else."""
    from torch._C import _distributed_c10d

    wait = _distributed_c10d.Work.wait

    def measured(self: Any, *timeout: Any, **named: Any) -> Any:
        began = time.monotonic_ns()
        try:
            return wait(self, *timeout, **named)
        finally:
            clock.waited(began)

    _distributed_c10d.Work.wait = measured
    clock.sees_waits = True


def _where() -> dict[str, Any]:
    """The node, and both of its clocks at the same moment."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return {
        "node": os.environ.get("LLMBX_NODE_NAME") or platform.node(),
        "boot_id": boot,
        "monotonic_ns": time.monotonic_ns(),
        "wall_ns": time.time_ns(),
    }
