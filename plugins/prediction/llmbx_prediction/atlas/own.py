"""The user's own tables: CSV files in the folder `atlas` of the install, with the columns of the shipped table."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from pathlib import Path

from llmbx.api import UsageError, did_you_mean

from ..case import Case
from ..cost.rates import rates
from ..cost.roofline import impossible
from ..validity import check
from . import table
from .row import OWN, Row

FOLDER = "atlas"
ROUNDING = 0.05
"""Relative difference between step time and tokens/s of one row that rounding explains."""
REQUIRED = ("model", "gpu_type", "gpus")


def rows(install: Path) -> tuple[Row, ...]:
    """The rows of all own tables of the install."""
    return tuple(row for path in files(install) for row in table.read(path))


def files(install: Path) -> list[Path]:
    """The own tables of the install."""
    return sorted((install / FOLDER).glob("*.csv"))


def add(install: Path, file: Path, name: str) -> tuple[Path, int]:
    """Check a table and copy it into the install under a name. Returns where it is, and how many rows it has.

    Raises `UsageError` for a cell that is not valid, a row without any figure, and a name that is not a file's name.
    """
    if not re.fullmatch(r"[\w.-]+", name) or name.startswith("."):
        raise UsageError(f"--name {name}: expected letters, digits, `-`, `_` and `.`")
    rows = tuple(_complete(row, f"{file}: row {number}") for number, row in enumerate(_read(file, name), 1))
    if not rows:
        raise UsageError(f"{file}: the table has no rows")
    path = install / FOLDER / f"{name}.csv"
    table.write(path, rows)
    return path, len(rows)


def remove(install: Path, name: str) -> Path:
    """Delete an own table. Raises `UsageError` if there is none with this name."""
    tables = {path.stem: path for path in files(install)}
    if name not in tables:
        raise UsageError(f"no own table named '{name}'{did_you_mean(name, tables)}")
    tables[name].unlink()
    return tables[name]


def _read(file: Path, name: str) -> Sequence[Row]:
    defaults = {"source": name, "release": OWN, "when": f"{_now():.3f}", "stack": "own"}
    return table.read(file, defaults, REQUIRED)


def _now() -> float:
    return 1970 + time.time() / 31556952


def _complete(row: Row, place: str) -> Row:
    """The row with step time and tokens/s per GPU computed from each other. Raises `UsageError` for impossible rows."""
    row.shape()
    if row.gpus < 1 or (row.gbs is not None and row.gbs < 1) or (row.seq is not None and row.seq < 1):
        raise UsageError(f"{place}: gpus, gbs and seq must be >= 1")
    degrees = [getattr(row, name) for name in ("mbs", "tp", "pp", "cp", "ep", "etp", "vp", "layers")]
    if any(degree is not None and degree < 1 for degree in degrees):
        raise UsageError(f"{place}: mbs, layers and degrees of parallelism must be >= 1")
    if not 2000 < row.when < 2100:
        raise UsageError(f"{place}: when: expected a date in years such as 2026.5, got {row.when:g}")
    figures = (row.step_time_s, row.tokens_per_s_per_gpu, row.memory_gb)
    if any(figure is not None and not 0 < figure < 1e12 for figure in figures):
        raise UsageError(f"{place}: step_time_s, tokens_per_s_per_gpu and memory_gb must be > 0")
    if all(figure is None for figure in figures):
        raise UsageError(f"{place}: expected step_time_s, tokens_per_s_per_gpu or memory_gb")
    if not row.gbs or not row.seq:
        return row
    work = row.gbs * row.seq / row.gpus
    if row.step_time_s and row.tokens_per_s_per_gpu:
        _agree(row.step_time_s, work / row.tokens_per_s_per_gpu, place)
    if row.step_time_s is None and row.tokens_per_s_per_gpu is not None:
        return _possible(row.replace(step_time_s=work / row.tokens_per_s_per_gpu), place)
    if row.tokens_per_s_per_gpu is None and row.step_time_s is not None:
        return _possible(row.replace(tokens_per_s_per_gpu=work / row.step_time_s), place)
    return _possible(row, place)


def _agree(step_time_s: float, computed: float, place: str) -> None:
    """Raise `UsageError` if a step time is not that of the tokens/s."""
    if abs(step_time_s / computed - 1) > ROUNDING:
        raise UsageError(f"{place}: step_time_s {step_time_s:g} contradicts tokens_per_s_per_gpu, gbs, seq and gpus, "
                         f"which give {computed:.4g} s")  # fmt: skip


def _possible(row: Row, place: str) -> Row:
    """The row, if its parallelism fits its GPUs and its speed is below the peak of the GPU.

    Raises `UsageError` if not.
    """
    case, tflops = row.case(), row.tflops_per_gpu()
    if case is None:
        return row
    if row.tp is not None:
        try:
            check(case)
        except UsageError as error:
            raise UsageError(f"{place}: {error}") from None
    if tflops is not None and tflops > (_peak(case) or math.inf):
        raise UsageError(f"{place}: {tflops:.0f} TFLOP/s per GPU are more than the peak of {row.gpu_type} in "
                         f"{case.dtype}, {_peak(case):g}")  # fmt: skip
    reason = _contradiction(row, case)
    if reason is not None:
        raise UsageError(f"{place}: {reason}")
    return row


def _contradiction(row: Row, case: Case) -> str | None:
    """Why the step time cannot be that of the row's configuration; None if it can, or nothing can be said."""
    if row.step_time_s is None or row.tp is None or _peak(case) is None:
        return None
    return impossible(case, row.step_time_s)


def _peak(case: Case) -> float | None:
    """Dense TFLOP/s of the GPU in this dtype; None if they are not known."""
    try:
        return rates(case.gpu_type).peak(case.dtype)
    except UsageError:
        return None
