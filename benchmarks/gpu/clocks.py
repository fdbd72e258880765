"""Clocks, power, temperature and memory of the GPU while a job runs, by nvidia-smi, which reads and changes nothing."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EVERY_MS = 200
COLUMNS = (
    "timestamp", "clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "utilization.gpu", "memory.used",
    "clocks_event_reasons.active",
)  # fmt: skip
BUSY = 90.0
"""Percent of utilization from which a sample counts as one under load."""


@contextmanager
def sampled(path: Path) -> Iterator[None]:
    """Write samples to `path` while the block runs; nothing on a machine without nvidia-smi."""
    argv = ["nvidia-smi", f"--query-gpu={','.join(COLUMNS)}", "--format=csv,noheader,nounits", "--id=0"]
    try:
        with path.open("wb") as file:
            process = subprocess.Popen([*argv, f"--loop-ms={EVERY_MS}"], stdout=file, stderr=subprocess.DEVNULL)
    except OSError:
        path.unlink()
        yield
        return
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def figures(path: Path) -> dict[str, Any] | None:
    """Medians and extremes of the samples under load, and the most memory of all samples; None without samples."""
    if not path.exists():
        return None
    samples = [values for line in path.read_text().splitlines() if (values := _values(line))]
    loaded = [values for values in samples if values["utilization.gpu"] >= BUSY]
    if not loaded:
        return None
    names = ("clocks.sm", "power.draw", "temperature.gpu")
    return {
        "samples": len(samples),
        "loaded": len(loaded),
        **{name: _spread([values[name] for values in loaded]) for name in names},
        "memory.used": max(values["memory.used"] for values in samples),
    }


def _values(line: str) -> dict[str, float]:
    """The numbers of one sample; empty for a line that was cut or holds a value that the GPU does not have."""
    cells = [cell.strip() for cell in line.split(",")]
    try:
        return dict(zip(COLUMNS[1:-1], map(float, cells[1:-1]), strict=True))
    except ValueError:
        return {}


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}
