"""Facts that the first rank records in `seen.json`: variables that matter, libraries, driver, GPUs, CPU affinity."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from llmbx.entry import secrets

FILE = "seen.json"
"""Where the first rank records what it saw, relative to the run folder."""

COMMON = ("numpy", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "transformer-engine")
"""Packages that every framework uses."""


def write(
    folder: Path, packages: Iterable[str], gpus: Sequence[dict[str, Any]] | None = None, variables: Iterable[str] = ()
) -> None:
    """Write the facts into `folder`, atomically. `gpus` replaces the driver's list if the framework knows more.

    `variables` are the beginnings of the names of further environment variables that change what the framework does.
    """
    part = folder / f".{FILE}.part"
    part.write_text(json.dumps(facts(packages, gpus, variables), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(folder / FILE)


def facts(
    packages: Iterable[str], gpus: Sequence[dict[str, Any]] | None = None, variables: Iterable[str] = ()
) -> dict[str, Any]:
    """All recorded facts. No framework is imported: it could claim its devices before the ranks have joined."""
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "host": platform.node(),
        "system": platform.platform(),
        "versions": versions((*packages, *COMMON)),
        "cpu": {"model": cpu_model(), "cores": os.cpu_count()},
        "affinity": compact(os.sched_getaffinity(0)),
        "gpus": driver_gpus() if gpus is None else list(gpus),
        "driver": driver_version(),
        "environment": secrets.recorded(os.environ, tuple(variables)),
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of those `packages` that are installed, from their metadata; nothing is imported."""
    installed = {}
    for name in packages:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


def compact(numbers: Iterable[int]) -> str:
    """Numbers as ranges: {0, 1, 2, 5} is "0-2,5"."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """Model name of the processor; None if unknown."""
    return _after("model name", cpuinfo)


def driver_version(file: Path = Path("/sys/module/nvidia/version")) -> str | None:
    """Version of the NVIDIA kernel driver; None if there is none."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def driver_gpus(folder: Path = Path("/proc/driver/nvidia/gpus")) -> list[dict[str, Any]]:
    """GPUs of this node, as named by the driver; empty without a driver."""
    return [{"name": _after("Model", file)} for file in sorted(folder.glob("*/information"))]


def _after(word: str, file: Path) -> str | None:
    """The text after `word` and a colon, in the first line that starts with `word`."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(word)), None)
