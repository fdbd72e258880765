"""Where the benchmark lives on the machine: the installed wheels, and the environment that its programs get."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
WHEELHOUSE = BUILD / "wheelhouse"
SITES = BUILD / "gpu" / "site"
INSTALL = BUILD / "gpu" / "install"
BRIDGES = ("0.6", "0.3")
"""Releases of Megatron-Bridge that are carried: the newest, and one to fall back to."""

PARTS = {"nemo": "nemo", "maxtext": "maxtext"}
"""The part of wheels.toml that each framework uses."""

PYTHON = f"py{sys.version_info.major}{sys.version_info.minor}"


def install() -> None:
    """Install the carried wheels, each part into a folder of its own, where they differ from what is there.

    Folders on PYTHONPATH instead of environments: what the machine has (torch, jax) stays visible, and a part may
    carry another version of a package than the machine or the other part has.
    """
    for part in sorted(WHEELHOUSE.glob("*")):
        wheels = sorted(str(wheel) for wheel in part.glob("*.whl"))
        site = SITES / f"{part.name}-{PYTHON}-{_digest(wheels)}"
        if not site.is_dir():
            argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
            made = site.with_suffix(".part")
            subprocess.run([*argv, "--no-deps", "--upgrade", "--target", str(made), *wheels], check=True)
            made.rename(site)


def use_bridge(release: str) -> None:
    """Choose the release of Megatron-Bridge for the jobs that follow."""
    PARTS["nemo"] = "nemo" if release == BRIDGES[0] else f"nemo-{release}"


def site(part: str) -> str:
    """The folder of a part; without a wheelhouse nothing was carried, and the machine has to have it."""
    wheels = sorted(str(wheel) for wheel in (WHEELHOUSE / part).glob("*.whl"))
    return str(SITES / f"{part}-{PYTHON}-{_digest(wheels)}") if wheels else ""


def environment(framework: str | None) -> dict[str, str]:
    """This process's environment with the wheels of llmbx and of `framework` in front, and an install of its own."""
    folders = [site("llmbx"), site(PARTS[framework]) if framework else "", os.environ.get("PYTHONPATH", "")]
    dropped = ("LLMB_", "GPU_TYPE", "DTYPE", "MODEL_SIZE", "JOB_TOTAL_GPUS", "ENABLE_", "SLURM_", "SBATCH_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(folder for folder in folders if folder),
        "LLMB_INSTALL": str(INSTALL),
        "LLMBX_CONFIG": "/dev/null",
        "LLMBX_PYTHON": sys.executable,
    }


def _digest(wheels: list[str]) -> str:
    found = hashlib.sha256()
    for wheel in wheels:
        found.update(Path(wheel).name.encode() + str(Path(wheel).stat().st_size).encode())
    return found.hexdigest()[:8]
