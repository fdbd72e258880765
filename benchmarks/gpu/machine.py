"""What the machine has: GPU and its settings, driver, processor, tools and packages. Prints one JSON object.

Nothing that names the machine is read: no host name, no serial number, no UUID.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

SETTINGS = (
    "name", "driver_version", "memory.total", "power.limit", "clocks.max.sm", "clocks.max.memory",
    "clocks.applications.graphics", "persistence_mode", "compute_mode", "ecc.mode.current", "mig.mode.current",
)  # fmt: skip
TOOLS = ("nvidia-smi", "nvcc", "nsys", "ncu", "docker", "apptainer", "enroot", "srun", "uv")
PACKAGES = (
    "torch", "triton", "jax", "jaxlib", "transformers", "numpy", "transformer-engine", "nvidia-nccl-cu13",
    "nvidia-cublas", "nvidia-cudnn-cu13",
)  # fmt: skip


def main() -> None:
    """Print what is there."""
    print(json.dumps({"settings": settings(), **host()}))


def settings() -> dict[str, str] | None:
    """The GPU's settings as nvidia-smi prints them; None without it."""
    argv = ["nvidia-smi", f"--query-gpu={','.join(SETTINGS)}", "--format=csv,noheader", "--id=0"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return dict(zip(SETTINGS, (value.strip() for value in done.stdout.split(",")), strict=False))


def host() -> dict[str, object]:
    """Kernel, processor, memory, and what is installed."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name")]
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpu": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "tools": {name: shutil.which(name) is not None for name in TOOLS},
        "packages": {name: version(name) for name in PACKAGES},
    }


def version(package: str) -> str | None:
    """The installed version of a package; None if it is not there."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
