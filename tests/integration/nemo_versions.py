"""The frameworks' versions inside the images: overlays on the shared packages of llmbx's own environments."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

from llmbx_venv.uv_tool import uv_command

BRIDGE: Mapping[str, str] = {"0.1.0rc3": "0.14.0", "0.2.0rc6": "0.15.0", "0.3.0": "0.16.0"}
"""Megatron-Bridge and Megatron-Core as in nemo:25.09, 25.11 and 26.02."""

NEMO2: Mapping[str, str] = {"2.2.1": "0.11.0", "2.3.0": "0.12.0", "2.3.1": "0.12.1"}
"""NeMo and the Megatron-Core release nearest to that in nemo:25.02.01, 25.04.00 and 25.04.01."""


def overlay(framework: Mapping[str, str], version: str, folder: Path) -> Path:
    """A folder with one version's packages and nothing that they need."""
    name = "megatron-bridge" if framework is BRIDGE else "nemo-toolkit"
    place = folder / f"{name}-{version}"
    with FileLock(f"{place}.lock"):
        if not place.is_dir():
            pins = [f"{name}=={version}", f"megatron-core=={framework[version]}"]
            uv = uv_command({"LLMBX_INSTALLER": "uv"})
            assert uv
            fresh = place.with_suffix(".part")
            python = ("--python", "3.11", "--python-preference", "system")
            subprocess.run(
                [uv, "pip", "install", *python, "--quiet", "--no-deps", "--target", fresh, *pins], check=True
            )
            fresh.rename(place)
    return place
