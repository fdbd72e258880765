"""NVTX ranges where MaxText itself profiles with nsys.

MaxText brackets the profiled steps with the CUDA runtime's profiler calls, after it has waited for the device; here the
ranges are opened and closed in the same places. A step lasts until the next begins, or the profile ends: JAX returns
from it long before the device is done. Where there is no CUDA runtime, the ranges are all there is.
"""

from __future__ import annotations

import ctypes
import shutil
from typing import Any

from llmbx.entry.ranges import Marks, nvtx_module

RUNTIME = "libcudart.so"
CLOUD = ("gcloud", "gsutil")
"""Clients that MaxText would copy its reports with."""


def mark(cuda: bool) -> None:
    """Mark what MaxText profiles from now on. Without the package nvtx there are no ranges, which is said."""
    nvtx = nvtx_module()
    if nvtx is None:
        return
    import jax

    marks = Marks(nvtx)

    class Step(jax.profiler.StepTraceAnnotation):
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
