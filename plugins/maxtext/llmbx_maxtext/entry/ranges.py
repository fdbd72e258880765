"""NVTX ranges for a profiler that looks on: `profile` around the profiled steps, `step` (with its number) around each.

MaxText itself brackets the profiled steps with CUDA's profiler calls, after it has waited for the device. Where there
is no CUDA library, `Brackets` stands in for it and opens and closes the range `profile` instead, at the same places.
"""

from __future__ import annotations

import sys
from typing import Any

DOMAIN = "llmbx"


def mark(start: int, stop: int, cuda: bool) -> None:
    """Mark steps [start, stop) from now on. Without the package nvtx there are no ranges, which is said."""
    try:
        import nvtx
    except ImportError:
        print(f"llmbx: {sys.executable} has no nvtx: the profile has no step ranges", file=sys.stderr, flush=True)
        return
    import jax

    class Step(jax.profiler.StepTraceAnnotation):  # type: ignore[misc]
        """JAX's own mark of one step, with a range beside it."""

        def __init__(self, name: str, **facts: Any) -> None:
            super().__init__(name, **facts)
            self.number = int(facts.get("step_num", -1))

        def __enter__(self) -> Any:
            if start <= self.number < stop:
                nvtx.push_range("step", domain=DOMAIN, payload=self.number)
            return super().__enter__()

        def __exit__(self, *failure: Any) -> None:
            super().__exit__(*failure)
            if start <= self.number < stop:
                nvtx.pop_range(domain=DOMAIN)

    jax.profiler.StepTraceAnnotation = Step
    if not cuda:
        from maxtext.common import profiler

        profiler.cdll = profiler.shutil = Brackets(nvtx)


class Brackets:
    """Stands in for `ctypes.cdll` and the CUDA runtime in it, as far as MaxText's profiler makes use of them.

    It stands in for `shutil`, too: MaxText would look for a cloud's client there, to copy reports to.
    """

    def __init__(self, nvtx: Any) -> None:
        self._nvtx = nvtx

    def LoadLibrary(self, name: str) -> Brackets:
        """The library is this object."""
        return self

    def which(self, name: str) -> None:
        """No program is found."""

    def cudaProfilerStart(self) -> None:
        """The first profiled step begins."""
        self._nvtx.push_range("profile", domain=DOMAIN)

    def cudaProfilerStop(self) -> None:
        """The last profiled step has ended."""
        self._nvtx.pop_range(domain=DOMAIN)
