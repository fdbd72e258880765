"""GPU types as data: memory, GPUs per node, and the dense peak for each dtype."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..model import Peak, Value
from ..phrases import did_you_mean
from .seen import Seen, driver_problem, seen

DTYPES = {"bf16": ((8, 0), (99, 9)), "fp8": ((8, 9), (99, 9)), "mxfp8": ((10, 0), (11, 9)), "nvfp4": ((10, 0), (11, 9))}
"""First and last compute capability with a dtype (Transformer Engine, support matrix of dtypes and hardware)."""

SAME_MEMORY = 0.98
"""GPUs of one memory size differ by this share in what their drivers print (80 GB: 81,251 to 81,920 MiB)."""


class GpuType(Value, frozen=True):
    """A GPU type with its `name`, `title`, `memory_gb` (10^9 bytes) and `peaks` by dtype.

    `memory_mib` is the memory as the driver prints it, `compute_capability` is NVIDIA's ("9.0"), None for others.
    `gpus_per_node` is None if the size of a node is not fixed; `nvlink_domain_nodes` is the number of nodes that NVLink
    connects, None without NVLink between nodes; `machine` is the processor of its nodes, None if it is not fixed;
    `match` holds regular expressions for product names. The
    peak of a dtype that is not in `peaks` is unknown (never taken from another GPU).
    """

    name: str
    title: str
    memory_gb: float | None = None
    memory_mib: int | None = None
    compute_capability: str | None = None
    gpus_per_node: int | None = None
    nvlink_domain_nodes: int | None = None
    machine: str | None = None
    match: tuple[str, ...] = ()
    peaks: dict[str, Peak] = {}

    @staticmethod
    def builtin() -> dict[str, GpuType]:
        """Return the GPU types that llmbx has, by name."""
        return dict(_builtin())

    @staticmethod
    def extend(tables: Mapping[str, Mapping[str, Any]], where: str = "llmbx.toml") -> dict[str, GpuType]:
        """Return those of llmbx with what `tables` add or change. Raises `UsageError`, which names `where`."""
        from ..toml_file import convert

        merged = GpuType.builtin()
        for name, table in tables.items():
            place = f"{where}: [gpus.{name}]"
            merged[name] = _overlay(merged.get(name) or _bare(name), convert(table, GpuTable, place), place)
        return merged

    @staticmethod
    def named(name: str, gpus: Mapping[str, GpuType] | None = None) -> GpuType:
        """Return the GPU type with this name, ignoring case: one of the list, else one of this machine.

        Raises `UsageError` with a suggestion.
        """
        types = _builtin() if gpus is None else gpus
        gpu_type = find(name, types)
        if gpu_type is None:
            define = f"define a new one as [gpus.{name.lower()}] in llmbx.toml"
            raise UsageError(f"no GPU type named '{name}'{did_you_mean(name.lower(), types)}; {define}")
        return gpu_type

    @staticmethod
    def identify(product: str, gpus: Mapping[str, GpuType] | None = None) -> str | None:
        """Return the GPU type of a product name as the driver prints it; None if no type matches."""
        types = _builtin() if gpus is None else gpus
        return next((g.name for g in types.values() if any(re.search(p, product) for p in g.match)), None)

    @staticmethod
    def detect(gpus: Mapping[str, GpuType] | None = None) -> tuple[str, int] | None:
        """Return the type of this machine's GPUs and how many are visible; None without one that runs can use.

        A process uses only one slice of a GPU (MIG).
        """
        machine = GpuType.here(gpus)
        if machine is None:
            return None
        gpu_type, group = machine
        count = 1 if group.kind == "MIG" else group.count
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            count = min(count, len([part for part in visible.split(",") if part.strip() not in ("", "-1")]))
        return (gpu_type.name, count) if count else None

    @staticmethod
    def here(gpus: Mapping[str, GpuType] | None = None) -> tuple[GpuType, Seen] | None:
        """Return the type of the GPUs of this machine that runs use, and what was seen; None without an NVIDIA GPU.

        Of several types it is the listed one with the most GPUs.
        """
        types = _builtin() if gpus is None else gpus
        groups = [(_listed(group, types), group) for group in _usable()]
        if not groups:
            return None
        listed, group = max(groups, key=lambda pair: (pair[0] is not None, pair[1].count, pair[1].memory_mib or 0))
        return listed or _own(group), group

    @staticmethod
    def seen() -> tuple[Seen, ...]:
        """Return all GPUs of this machine, as its driver's tool prints them."""
        return seen()

    @staticmethod
    def driver_problem() -> str | None:
        """Return why the driver's tool of this machine fails; None if it works or there is none."""
        return driver_problem()

    @staticmethod
    def why_cpu() -> str | None:
        """Return why runs use the CPU although there is a GPU or its tool, in one line; None if there is none."""
        if GpuType.here() is not None:
            return None if GpuType.detect() else "CUDA_VISIBLE_DEVICES names none of this machine's GPUs"
        amd = [group for group in seen() if group.amd]
        if not amd:
            return driver_problem()
        names = dict.fromkeys(GpuType.identify(group.product) for group in amd)
        aware = [f"; llmbx predict and llmbx atlas know {name}" for name in names if name]
        return f"{' and '.join(map(str, amd))}: llmbx cannot run on AMD GPUs{''.join(aware)}"

    @staticmethod
    def peak_of(gpu_type: str, dtype: str, gpus: Mapping[str, GpuType] | None = None) -> Peak | None:
        """The dense peak of exactly this GPU type (by default one that llmbx has) and dtype, or None if unknown."""
        listed = (_builtin() if gpus is None else gpus).get(gpu_type)
        return listed.peaks.get(dtype) if listed else None

    @staticmethod
    def how_to_set_peak(gpu_type: str, dtype: str) -> str:
        """One line that tells the user how to configure the missing peak of this GPU type and dtype."""
        return f"no {dtype} peak configured for {gpu_type}: set [gpus.{gpu_type}] peaks.{dtype} = TFLOPS in llmbx.toml"

    def computes(self, dtype: str) -> bool:
        """Whether it has this dtype; True for a GPU whose compute capability is not known."""
        if self.compute_capability is None or dtype not in DTYPES:
            return True
        first, last = DTYPES[dtype]
        return first <= self.generation <= last

    def can_borrow(self, lender: GpuType, dtype: str) -> bool:
        """Whether a row of another NVIDIA GPU suits it: it has the dtype, and its memory is known."""
        facts = (self.compute_capability, lender.compute_capability, self.memory_gb, lender.memory_gb)
        return None not in facts and self.computes(dtype)

    def has_memory_of(self, lender: GpuType) -> bool:
        """Whether it has as much memory as another GPU, or more."""
        return (self.memory_gb or 0) >= SAME_MEMORY * (lender.memory_gb or 0)

    @property
    def generation(self) -> tuple[int, ...]:
        """The compute capability as numbers."""
        return tuple(int(part) for part in (self.compute_capability or "0.0").split("."))


class GpuTable(Value, frozen=True):
    """A GPU type as written in TOML: peaks are plain TFLOP/s, `source` says where they come from."""

    title: str | None = None
    memory_gb: float | None = None
    memory_mib: int | None = None
    compute_capability: str | None = None
    gpus_per_node: int | None = None
    nvlink_domain_nodes: int | None = None
    machine: str | None = None
    match: tuple[str, ...] | None = None
    peaks: dict[str, float] = {}
    peak_clock_mhz: float | None = None
    source: str | None = None


def find(name: str, gpus: Mapping[str, GpuType]) -> GpuType | None:
    """The GPU type with this name, as `GpuType.named` finds it, or None."""
    listed = gpus.get(name) or gpus.get(name.lower())
    return listed or next((own for own in map(_own, _usable()) if own.name == name.lower()), None)


def unlisted(gpu_type: str, gpus: Mapping[str, GpuType] | None = None) -> Seen | None:
    """What was seen of this machine's GPUs if `gpu_type` is their type and not in the list; else None."""
    machine = GpuType.here(gpus)
    types = _builtin() if gpus is None else gpus
    return machine[1] if machine and machine[0].name == gpu_type and gpu_type not in types else None


def _usable() -> tuple[Seen, ...]:
    return tuple(group for group in seen() if not group.amd)


def _listed(group: Seen, gpus: Mapping[str, GpuType]) -> GpuType | None:
    """Its type in the list: for a slice or a virtual GPU only one that names it."""
    types = gpus if group.kind == "whole" else {name: gpus[name] for name in gpus.keys() - _builtin().keys()}
    name = GpuType.identify(group.product, types)
    return gpus[name] if name else None


def _own(group: Seen) -> GpuType:
    """A type of its own, from what was seen."""
    name = re.sub(r"^(nvidia-)?(geforce-)?", "", re.sub(r"[^a-z0-9]+", "-", group.product.lower()).strip("-"))
    sliced = re.search(r"(\d{1,9})gb", group.product) if group.kind == "MIG" else None
    return GpuType(
        name=name,
        title=group.product.removeprefix("NVIDIA "),
        memory_gb=float(sliced[1]) if sliced else _gb(group.memory_mib),
        memory_mib=group.memory_mib,
        compute_capability=group.compute_capability,
        match=(f"^{re.escape(group.product)}$",),
    )


def _gb(mib: int | None) -> float | None:
    return None if mib is None else mib * 2**20 / 1e9


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
    numbers = {name: getattr(table, name) for name in ("memory_gb", "memory_mib", "peak_clock_mhz")}
    for name, number in numbers.items():
        if number is not None and not (math.isfinite(number) and number > 0):
            raise UsageError(f"{place}: {name}: expected a number > 0 (or no entry), got {number:g}")
    if table.compute_capability is not None and not re.fullmatch(r"\d+\.\d", table.compute_capability):
        raise UsageError(f'{place}: compute_capability: expected e.g. "9.0", got "{table.compute_capability}"')
    memory_gb = _gb(table.memory_mib) if table.memory_gb is None else table.memory_gb
    peaks = {
        dtype: Peak(
            tflops=tflops,
            name=f"{title} dense {dtype.upper()}",
            source=table.source or place,
            clock_mhz=table.peak_clock_mhz,
        )
        for dtype, tflops in table.peaks.items()
    }
    return GpuType(
        name=base.name,
        title=title,
        memory_gb=base.memory_gb if memory_gb is None else memory_gb,
        memory_mib=base.memory_mib if memory_gb is None else table.memory_mib,
        compute_capability=table.compute_capability or base.compute_capability,
        gpus_per_node=base.gpus_per_node if table.gpus_per_node is None else table.gpus_per_node,
        nvlink_domain_nodes=table.nvlink_domain_nodes or base.nvlink_domain_nodes,
        machine=table.machine or base.machine,
        match=base.match if table.match is None else table.match,
        peaks={**base.peaks, **peaks},
    )


def _compile(pattern: str, place: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{place}: match: '{pattern}' is not a regular expression: {error}") from None
