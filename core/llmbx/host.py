"""Facts about the machine that llmbx runs on, for the record. What cannot be read is left out."""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path
from typing import Any

from .model import Owner


def facts() -> dict[str, Any]:
    """Name, system, processor, cores, memory in GiB, and the GPU driver where there is one."""
    return {**_lasting(), "load_1min": round(os.getloadavg()[0], 2)}


@functools.cache
def _lasting() -> dict[str, Any]:
    """What does not change while llmbx runs: hundreds of runs of a sweep have it in their records."""
    import psutil

    found: dict[str, Any] = {
        "hostname": platform.node(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "driver": _driver(),
    }
    return {key: value for key, value in found.items() if value is not None}


def myself() -> Owner:
    """This process, as the owner of a run."""
    import psutil

    return Owner(pid=os.getpid(), started=psutil.Process().create_time(), host=platform.node())


def is_me(owner: Owner | None) -> bool:
    """Whether this process is the owner."""
    return owner is not None and owner.pid == os.getpid() and alive(owner) is True


def alive(owner: Owner) -> bool | None:
    """Whether the owner still runs; None when it is on another host. A recycled process id is not the owner."""
    import psutil

    if owner.host != platform.node():
        return None
    try:
        return abs(psutil.Process(owner.pid).create_time() - owner.started) < 1.0
    except psutil.Error:
        return False


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
