"""NVTX ranges for the steps that MaxText profiles with nsys.

MaxText calls the CUDA runtime's profiler functions before and after the profiled steps, when the device is idle; the
ranges are started and ended in the same calls. The range of a step lasts until the next step starts or the profile
ends, because JAX returns from a step long before the device has completed it. Without a CUDA runtime there are only the
ranges.
"""

from __future__ import annotations

import ctypes
import shutil
from typing import Any

from llmbx.entry.ranges import Marks, nvtx_module

RUNTIME = "libcudart.so"
CLOUD = ("gcloud", "gsutil")
"""Command-line clients with which MaxText would upload its reports. They are hidden from it."""


def mark(cuda: bool) -> None:
    """Add ranges to everything that MaxText profiles from now on.

    Without the package nvtx a message is printed and no ranges are added.
    """
    nvtx = nvtx_module()
    if nvtx is None:
        return
    import jax

    marks = Marks(nvtx)

    class Step(jax.profiler.StepTraceAnnotation):
        """JAX's annotation of one step, which also starts the range of the step."""

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
    """Replaces the CUDA runtime for MaxText's profiler: calls the real functions, if any, and adds ranges."""

    def __init__(self, marks: Marks, real: Any) -> None:
        self._marks, self._real = marks, real

    def cudaProfilerStart(self) -> None:
        """Start the capture and the range of the profile."""
        if self._real:
            self._real.cudaProfilerStart()
        self._marks.begin()

    def cudaProfilerStop(self) -> None:
        """End the range of the profile and stop the capture."""
        self._marks.end()
        if self._real:
            self._real.cudaProfilerStop()
