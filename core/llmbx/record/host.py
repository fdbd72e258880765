"""Facts about the machine that llmbx runs on, for the record. Facts that cannot be determined are left out."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..clock import boot_id
from ..launchers.supervisor import read_process
from ..model.job import Owner
from ..run_files.door import user_name


def facts() -> dict[str, Any]:
    """Host name, system, processor, cores, memory in GiB, load, and the version of the GPU driver, if any."""
    return {**_static_facts(), "load_1min": round(os.getloadavg()[0], 2)}


@functools.cache
def _static_facts() -> dict[str, Any]:
    """Facts that do not change while llmbx runs; cached, because hundreds of runs of a sweep record them."""
    import psutil

    facts: dict[str, Any] = {
        "hostname": platform.node(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "driver": _driver(),
    }
    return {key: value for key, value in facts.items() if value is not None}


@functools.cache
def current_user() -> str:
    """The name of the user that this process runs as."""
    return user_name(os.getuid())


def myself() -> Owner:
    """This process, as the owner of a run."""
    import psutil

    process = read_process(os.getpid())
    return Owner(
        pid=os.getpid(), started=psutil.Process().create_time(), host=platform.node(),
        ticks=process.start if process else None, boot_id=boot_id() if process else "",
    )  # fmt: skip


def is_me(owner: Owner | None) -> bool:
    """Whether this process is the owner."""
    return owner is not None and owner.pid == os.getpid() and alive(owner) is True


def alive(owner: Owner) -> bool | None:
    """Whether the owner is still running; None if it is on another host. A reused process id is not the owner."""
    import psutil

    if owner.host != platform.node():
        return None
    if owner.ticks is not None and owner.boot_id:
        process = read_process(owner.pid)
        return owner.boot_id == boot_id() and process is not None and process.start == owner.ticks
    try:
        return abs(psutil.Process(owner.pid).create_time() - owner.started) < 1.0
    except psutil.Error:
        return False


BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16", "svebf16"})
"""Flags in /proc/cpuinfo of instructions that compute in BF16, for x86_64 and aarch64."""

NARROW_ISAS = frozenset({"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI"})
"""Values of ONEDNN_MAX_CPU_ISA, among those documented by oneDNN, that disable BF16 instructions."""


def has_bf16(environ: Mapping[str, str], cpuinfo: Path = Path("/proc/cpuinfo")) -> bool | None:
    """Whether programs in this environment compute in BF16 on this CPU; None if unknown."""
    if environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in NARROW_ISAS:
        return False
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), None)
    return None if flags is None else not BF16_FLAGS.isdisjoint(flags.split())


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


def _driver() -> str | None:
    try:
        return Path("/sys/module/nvidia/version").read_text(encoding="utf-8").strip()
    except OSError:
        return None
