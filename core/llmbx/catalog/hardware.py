"""GPU types as data: memory, GPUs per node, and the dense peak for each dtype."""

from __future__ import annotations

import functools
import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError, did_you_mean
from ..model import Peak, Value

QUERY = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")


ANSWER_S = 15.0
"""Seconds in which nvidia-smi must answer; on large nodes without persistence mode it takes several."""


class GpuType(Value, frozen=True):
    """A GPU type with its `name`, `title`, `memory_gb` (10^9 bytes) and `peaks` by dtype.

    `gpus_per_node` is None if the size of a node is not fixed; `nvlink_domain_nodes` is the number of nodes that NVLink
    connects, None without NVLink between nodes; `match` holds regular expressions for product names. The
    peak of a dtype that is not in `peaks` is unknown (never taken from another GPU).
    """

    name: str
    title: str
    memory_gb: float | None = None
    gpus_per_node: int | None = None
    nvlink_domain_nodes: int | None = None
    match: tuple[str, ...] = ()
    peaks: dict[str, Peak] = {}

    @staticmethod
    def builtin() -> dict[str, GpuType]:
        """Return the GPU types that llmbx has, by name."""
        return builtin()

    @staticmethod
    def extend(tables: Mapping[str, Mapping[str, Any]], where: str = "llmbx.toml") -> dict[str, GpuType]:
        """Return those of llmbx with what `tables` add or change. Raises `UsageError`, which names `where`."""
        return extend(tables, where)

    @staticmethod
    def named(name: str, gpus: Mapping[str, GpuType] | None = None) -> GpuType:
        """Return the GPU type with this name, ignoring case. Raises `UsageError` with a suggestion."""
        return gpu(name, gpus)

    @staticmethod
    def identify(product: str, gpus: Mapping[str, GpuType] | None = None) -> str | None:
        """Return the GPU type of a product name as printed by `nvidia-smi`; None if no type matches."""
        return identify(product, gpus)

    @staticmethod
    def detect(gpus: Mapping[str, GpuType] | None = None) -> tuple[str, int] | None:
        """Return the type of this machine's GPUs and how many are visible; None without one of a known type."""
        return detect(gpus)

    @staticmethod
    def products() -> list[str]:
        """Return the product names of this machine's GPUs; empty if `nvidia-smi` is missing or fails."""
        return product_names()

    @staticmethod
    def driver_problem() -> str | None:
        """Return why `nvidia-smi` lists no GPUs although it is installed, in one line; None if it does."""
        return driver_problem()

    @staticmethod
    def peak_of(gpu_type: str, dtype: str, gpus: Mapping[str, GpuType] | None = None) -> Peak | None:
        """The dense peak of exactly this GPU type (by default one that llmbx has) and dtype, or None if unknown."""
        found = (_builtin() if gpus is None else gpus).get(gpu_type)
        return found.peaks.get(dtype) if found else None

    @staticmethod
    def how_to_set_peak(gpu_type: str, dtype: str) -> str:
        """One line that tells the user how to configure the missing peak of this GPU type and dtype."""
        return f"no {dtype} peak configured for {gpu_type}: set [gpus.{gpu_type}] peaks.{dtype} = TFLOPS in llmbx.toml"


class GpuTable(Value, frozen=True):
    """A GPU type as written in TOML: peaks are plain TFLOP/s, `source` says where they come from."""

    title: str | None = None
    memory_gb: float | None = None
    gpus_per_node: int | None = None
    nvlink_domain_nodes: int | None = None
    match: tuple[str, ...] | None = None
    peaks: dict[str, float] = {}
    source: str | None = None


def builtin() -> dict[str, GpuType]:
    """The built-in GPU types, by name."""
    return dict(_builtin())


def extend(tables: Mapping[str, Mapping[str, Any]], where: str = "llmbx.toml") -> dict[str, GpuType]:
    """The built-in GPU types merged with the user's `[gpus.NAME]` tables; a table overrides single keys of a known
    type.

    Raises `UsageError` for an unknown key or an invalid value.
    """
    from ..toml_file import convert

    merged = builtin()
    for name, table in tables.items():
        place = f"{where}: [gpus.{name}]"
        merged[name] = _overlay(merged.get(name) or _bare(name), convert(table, GpuTable, place), place)
    return merged


def gpu(name: str, gpus: Mapping[str, GpuType] | None = None) -> GpuType:
    """The GPU type with this name, ignoring case. Raises `UsageError` with a suggestion if there is none."""
    types = _builtin() if gpus is None else gpus
    gpu_type = types.get(name) or types.get(name.lower())
    if gpu_type is None:
        hint = did_you_mean(name.lower(), types)
        raise UsageError(f"no GPU type named '{name}'{hint}; define a new one as [gpus.{name.lower()}] in llmbx.toml")
    return gpu_type


def identify(product: str, gpus: Mapping[str, GpuType] | None = None) -> str | None:
    """The GPU type of a product name as printed by `nvidia-smi`, or None if no type matches."""
    types = _builtin() if gpus is None else gpus
    return next((g.name for g in types.values() if any(re.search(p, product) for p in g.match)), None)


def detect(gpus: Mapping[str, GpuType] | None = None) -> tuple[str, int] | None:
    """GPU type of this machine and number of visible GPUs; None if there is no GPU of a known type."""
    types = [name for name in (identify(product, gpus) for product in product_names()) if name]
    if not types:
        return None
    name, count = Counter(types).most_common(1)[0]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        count = min(count, len([part for part in visible.split(",") if part.strip() not in ("", "-1")]))
    return (name, count) if count else None


def product_names() -> list[str]:
    """Product names of this machine's GPUs as printed by `nvidia-smi`; empty if it is missing or fails."""
    return list(_answer()[0])


def driver_problem() -> str | None:
    """Why `nvidia-smi` does not list GPUs although it is installed, in one line; None if it does, or is missing."""
    return _answer()[1]


def _answer() -> tuple[tuple[str, ...], str | None]:
    import shutil

    program = shutil.which(QUERY[0])
    return _ask(program) if program else ((), None)


@functools.cache
def _ask(program: str) -> tuple[tuple[str, ...], str | None]:
    """Product names and problem. Asked once: a driver that hangs would delay every question."""
    import subprocess

    try:
        answer = subprocess.run(
            (program, *QUERY[1:]), capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        return (), f"{QUERY[0]} does not answer within {ANSWER_S:g} s"
    except OSError as error:
        return (), f"{QUERY[0]} cannot be started: {error.strerror}"
    lines = [line.strip() for line in answer.stdout.splitlines() if line.strip()]
    if answer.returncode:
        message = next(iter([*lines, *answer.stderr.splitlines()]), f"exit code {answer.returncode}")
        return (), f"{QUERY[0]} failed: {message[:200]}"
    return tuple(lines), None


@functools.cache
def _builtin() -> dict[str, GpuType]:
    from ..toml_file import read_toml

    path = Path(__file__).parents[1] / "data" / "hardware.toml"
    tables = read_toml(path, dict[str, GpuTable])
    return {name: _overlay(_bare(name), table, f"{path}: [{name}]") for name, table in tables.items()}


def _bare(name: str) -> GpuType:
    return GpuType(name=name, title=name.upper())


def _overlay(base: GpuType, table: GpuTable, place: str) -> GpuType:
    """`base` with the values of the table; `place`, its place in a file, is the source of peaks if the table names
    none.
    """
    title = base.title if table.title is None else table.title
    for pattern in table.match or ():
        _compile(pattern, place)
    for dtype, tflops in table.peaks.items():
        if not (math.isfinite(tflops) and tflops > 0):
            raise UsageError(f"{place}: peaks.{dtype}: expected TFLOP/s > 0 (or no entry), got {tflops:g}")
    if table.memory_gb is not None and not (math.isfinite(table.memory_gb) and table.memory_gb > 0):
        raise UsageError(f"{place}: memory_gb: expected GB > 0 (or no entry), got {table.memory_gb:g}")
    peaks = {
        dtype: Peak(tflops=tflops, name=f"{title} dense {dtype.upper()}", source=table.source or place)
        for dtype, tflops in table.peaks.items()
    }
    return GpuType(
        name=base.name,
        title=title,
        memory_gb=base.memory_gb if table.memory_gb is None else table.memory_gb,
        gpus_per_node=base.gpus_per_node if table.gpus_per_node is None else table.gpus_per_node,
        nvlink_domain_nodes=table.nvlink_domain_nodes or base.nvlink_domain_nodes,
        match=base.match if table.match is None else table.match,
        peaks={**base.peaks, **peaks},
    )


def _compile(pattern: str, place: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{place}: match: '{pattern}' is not a regular expression: {error}") from None
