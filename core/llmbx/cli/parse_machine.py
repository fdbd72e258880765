"""The machine of a log that no run of llmbx wrote, as the user states it."""

from __future__ import annotations

from ..catalog.hardware import GpuType, extend, gpu
from ..errors import UsageError
from ..measure.figures import on_machine
from ..model import Figures, Peak, Value

DTYPE = "bf16"
"""The dtype of the peak unless the user states another."""


class Machine(Value, frozen=True):
    """The number of GPUs and the peak of one; None is unknown."""

    gpus: int | None = None
    peak: Peak | None = None

    def place(self, figures: Figures) -> Figures:
        """The figures with those that depend on the machine, and a note on the peak that the MFU is of."""
        placed = on_machine(figures, self.gpus, self.peak)
        if self.peak is None or placed.mfu.value is None:
            return placed
        note = f"the MFU is that of the log's TFLOP/s over {self.peak.name}: {self.peak.tflops:g} TFLOP/s"
        noted: Figures = placed.replace(warnings=(*placed.warnings, note))
        return noted


UNKNOWN = Machine()


def machine_of(gpu_type: str | None, gpus: int | None, dtype: str | None) -> Machine:
    """The machine of the options. Raises `UsageError` for an unknown GPU type, or a peak that is not known."""
    if gpu_type is None:
        if dtype is not None:
            raise UsageError("--dtype requires --gpu-type: it is that of the peak")
        return Machine(gpus=gpus)
    from .workspace import configuration

    types = extend(configuration()[0].gpus)
    name = gpu(gpu_type, types).name
    found = GpuType.peak_of(name, dtype or DTYPE, types)
    if found is None:
        raise UsageError(GpuType.how_to_set_peak(name, dtype or DTYPE))
    return Machine(gpus=gpus, peak=found)
