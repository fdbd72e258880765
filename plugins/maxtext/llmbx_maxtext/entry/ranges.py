"""NVTX ranges for an nsys that looks on: `profile` around the profiled steps, `step` (with its number) around each.

MaxText brackets the profiled steps with the CUDA runtime's profiler calls, after it has waited for the device; here the
ranges are opened and closed in the same places. A step lasts until the next begins, or the profile ends: JAX returns
from it long before the device is done. Where there is no CUDA runtime, the ranges are all there is.
"""

from __future__ import annotations

import ctypes
import shutil
import sys
from typing import Any

DOMAIN = "llmbx"
RUNTIME = "libcudart.so"
CLOUD = ("gcloud", "gsutil")
"""Clients that MaxText would copy its reports with."""


def mark(cuda: bool) -> None:
    """Mark what MaxText profiles from now on. Without the package nvtx there are no ranges, which is said."""
    try:
        import nvtx
    except ImportError:
        print(f"llmbx: {sys.executable} has no nvtx: the profile has no step ranges", file=sys.stderr, flush=True)
        return
    import jax

    marks = Marks(nvtx)

    class Step(jax.profiler.StepTraceAnnotation):  # type: ignore[misc]
        """JAX's own mark of one step."""

        def __init__(self, name: str, **facts: Any) -> None:
            super().__init__(name, **facts)
            marks.step(int(facts.get("step_num", -1)))

    jax.profiler.StepTraceAnnotation = Step
    load, find = ctypes.cdll.LoadLibrary, shutil.which

    def library(name: str) -> Any:
        return Runtime(marks, load(name) if cuda else None) if name == RUNTIME else load(name)

    def program(name: str, *more: Any, **kinds: Any) -> Any:
        return None if name in CLOUD else find(name, *more, **kinds)

    ctypes.cdll.LoadLibrary = library  # type: ignore[method-assign]
    shutil.which = program  # type: ignore[assignment]


class Marks:
    """The ranges that are open: none, the profile's, or the profile's and one step's in it."""

    def __init__(self, nvtx: Any) -> None:
        self._nvtx = nvtx
        self._depth = 0

    def begin(self) -> None:
        """The profile begins."""
        self._push("profile")

    def step(self, number: int) -> None:
        """The step `number` begins, and ends the one before."""
        if self._depth == 2:
            self._pop()
        if self._depth:
            self._push("step", payload=number)

    def end(self) -> None:
        """The profile ends."""
        while self._depth:
            self._pop()

    def _push(self, name: str, **facts: int) -> None:
        self._nvtx.push_range(name, domain=DOMAIN, **facts)
        self._depth += 1

    def _pop(self) -> None:
        self._nvtx.pop_range(domain=DOMAIN)
        self._depth -= 1


class Runtime:
    """The CUDA runtime as MaxText's profiler makes use of it: the real one, if there is one, with the ranges."""

    def __init__(self, marks: Marks, real: Any) -> None:
        self._marks, self._real = marks, real

    def cudaProfilerStart(self) -> None:
        """The capture begins."""
        if self._real:
            self._real.cudaProfilerStart()
        self._marks.begin()

    def cudaProfilerStop(self) -> None:
        """The capture ends."""
        self._marks.end()
        if self._real:
            self._real.cudaProfilerStop()
