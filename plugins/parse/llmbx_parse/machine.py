"""The machine of a log that no run of llmbx wrote, as the user states it."""

from __future__ import annotations

import dataclasses

from llmbx.api import GpuType, Result, UsageError

from .parsed_log import ParsedLog

DTYPE = "bf16"
"""The dtype of the peak unless the user states another."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """The number of GPUs, their type, and the dtype of the peak; None is unknown."""

    gpus: int | None = None
    gpu_type: GpuType | None = None
    dtype: str = DTYPE

    def measure(self, log: ParsedLog, window: str | None, checked: bool = True) -> Result:
        """Measure a log on this machine; if a run of llmbx wrote it, on that of the run.

        The MFU has a note on the peak that it is of.
        """
        peak = self.gpu_type.peaks.get(self.dtype) if self.gpu_type else None
        result = log.reading.measure(window, log.window, checked=checked, gpus=self.gpus, peak=peak)
        if log.reading.run is not None or peak is None or result.mfu.value is None:
            return result
        over = f"{peak.name}: {peak.tflops:g} TFLOP/s"
        note = f"the MFU is that of the log's TFLOP/s over {over}"
        return result.replace(warnings=(*result.warnings, note))


UNKNOWN = Machine()


def machine_of(gpu_type: str | None, gpus: int | None, dtype: str | None) -> Machine:
    """The machine of the options. Raises `UsageError` for an unknown type or peak."""
    if gpu_type is None:
        if dtype is not None:
            raise UsageError("--dtype requires --gpu-type: it is that of the peak")
        return Machine(gpus=gpus)
    from llmbx.api.verbs import load_workspace

    chosen = dtype or DTYPE
    named = GpuType.named(gpu_type, GpuType.extend(load_workspace().config.gpus))
    if chosen not in named.peaks:
        raise UsageError(GpuType.how_to_set_peak(named.name, chosen))
    return Machine(gpus=gpus, gpu_type=named, dtype=chosen)
