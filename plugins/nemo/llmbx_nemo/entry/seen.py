"""`seen.json`: what rank 0 really found. Environment (secrets removed), libraries, driver, devices, affinity."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

SECRET = re.compile(r"(^|_)(TOKEN|KEY|APIKEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$|S$)", re.IGNORECASE)
"""Names whose values are never written."""

PACKAGES = (
    "torch",
    "megatron-core",
    "megatron-bridge",
    "nemo-toolkit",
    "transformer-engine",
    "flash-attn",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "numpy",
    "transformers",
    "triton",
)


def write(path: Path) -> None:
    """Write the facts to `path`, whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(facts(), indent=1, sort_keys=True) + "\n")
    part.replace(path)


def facts() -> dict[str, Any]:
    """Everything seen; imports torch."""
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "host": platform.node(),
        "system": platform.platform(),
        "versions": versions(PACKAGES),
        "cpu": {"model": cpu_model(), "cores": os.cpu_count()},
        "affinity": compact(os.sched_getaffinity(0)),
        "gpus": gpus(),
        "driver": driver_version(),
        "environment": redacted(os.environ),
    }


def redacted(env: Mapping[str, str]) -> dict[str, str]:
    """`env` with the values of secrets replaced by asterisks, by name."""
    return {name: "***" if SECRET.search(name) else value for name, value in sorted(env.items())}


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The installed ones of `packages`, from their metadata: nothing is imported."""
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


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
    """The processor's own name; None where it is not told."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def driver_version(file: Path = Path("/sys/module/nvidia/version")) -> str | None:
    """The NVIDIA kernel driver's version; None without one."""
    try:
        return file.read_text().strip()
    except OSError:
        return None


def gpus() -> list[dict[str, Any]]:
    """This rank's CUDA devices, with CUDA and NCCL as torch was built; empty without a device."""
    import torch

    if not torch.cuda.is_available():
        return []
    shared = {"cuda": torch.version.cuda, "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    devices = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return [
        {
            "name": device.name,
            "memory_bytes": device.total_memory,
            "multiprocessors": device.multi_processor_count,
            "capability": f"{device.major}.{device.minor}",
            **shared,
        }
        for device in devices
    ]
