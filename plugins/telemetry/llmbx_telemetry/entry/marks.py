"""What a rank did besides its steps: garbage collection, checkpoints, evaluation, compilation.

`step_clocks/rank-N.marks` has a line for each that took at least `LEAST_NS`: the kind, the start in
nanoseconds of the monotonic clock, and the duration in microseconds, with tabs between them. It may
lie in a step or between steps.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

GARBAGE, CHECKPOINT = "garbage-collection", "checkpoint"
EVALUATION, COMPILE = "evaluation", "compile"
LEAST_NS = 200_000


class Marks:
    """Appends lines to a file. What is inside something else of the same kind is part of it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="ascii")
        self._began: dict[str, list[int]] = {}
        self._main = threading.get_ident()

    def begin(self, kind: str) -> None:
        """Note that something begins."""
        if threading.get_ident() == self._main:
            self._began.setdefault(kind, []).append(time.monotonic_ns())

    def end(self, kind: str) -> None:
        """Note that it has ended, and write the outermost."""
        if threading.get_ident() != self._main or not self._began.get(kind):
            return
        began, now = self._began[kind].pop(), time.monotonic_ns()
        if not self._began[kind] and now - began >= LEAST_NS:
            with contextlib.suppress(OSError, ValueError):
                self._file.write(f"{kind}\t{began}\t{(now - began) // 1000}\n")

    @contextlib.contextmanager
    def mark(self, kind: str) -> Iterator[None]:
        """Measure a block."""
        self.begin(kind)
        try:
            yield
        finally:
            self.end(kind)

    def flush(self) -> None:
        """Write what is buffered."""
        with contextlib.suppress(OSError, ValueError):
            self._file.flush()

    def close(self) -> None:
        """Write what is left; nothing is measured any more."""
        self._began = {}
        with contextlib.suppress(OSError, ValueError):
            self._file.close()


def of_torch(path: Path) -> Marks:
    """Return marks that see what PyTorch saves, evaluates and compiles, and garbage collection."""
    marks = Marks(path)
    _see_garbage(marks)
    _see_saving(marks)
    _see_evaluation(marks)
    return marks


def _see_garbage(marks: Marks) -> None:
    def collected(phase: str, _: Any) -> None:
        (marks.begin if phase == "start" else marks.end)(GARBAGE)

    gc.callbacks.append(collected)


def _see_saving(marks: Marks) -> None:
    import torch

    torch.save = _measured(torch.save, marks, CHECKPOINT)
    if torch.distributed.is_available():
        with contextlib.suppress(ImportError, AttributeError):
            from torch.distributed import checkpoint

            saver: Any = checkpoint
            saver.save = _measured(saver.save, marks, CHECKPOINT)


def _measured(function: Callable[..., Any], marks: Marks, kind: str) -> Any:
    @functools.wraps(function)
    def measured(*arguments: Any, **named: Any) -> Any:
        with marks.mark(kind):
            return function(*arguments, **named)

    return measured


def _see_evaluation(marks: Marks) -> None:
    """A model is evaluated from `eval()` to its `train()`."""
    from torch import nn

    train, evaluated = nn.Module.train, list[int]()

    def measured(self: Any, mode: bool = True) -> Any:
        if not mode and not evaluated and self.training:
            evaluated.append(id(self))
            marks.begin(EVALUATION)
        elif mode and evaluated and evaluated[0] == id(self):
            evaluated.clear()
            marks.end(EVALUATION)
        return train(self, mode)

    module: Any = nn.Module
    module.train = measured


def see_compilation(marks: Marks) -> bool:
    """Let PyTorch's compiler report; False if it is not imported yet."""
    if "torch._dynamo.callback" not in sys.modules:
        return False
    handler: Any = getattr(sys.modules["torch._dynamo.callback"], "callback_handler", None)
    with contextlib.suppress(AttributeError):
        handler.register_start_callback(lambda *_: marks.begin(COMPILE))
        handler.register_end_callback(lambda *_: marks.end(COMPILE))
    return True
