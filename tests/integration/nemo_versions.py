"""The frameworks' versions inside the images: overlays on the shared packages of llmbx's own environments."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

from llmbx_environments.venv.uv_tool import require_program
from llmbx_nemo.image_versions import image_versions

NEWEST_ENVIRONMENT = "megatron-bridge-0.6-cpu"
"""The environment of the newest Megatron-Bridge, which needs Python 3.12."""


def cores(name: str) -> Mapping[str, str]:
    """The version of Megatron-Core for each version of a framework that an image has, on Python 3.11."""
    images = [image for image in image_versions() if image.environment != NEWEST_ENVIRONMENT]
    found = [dict(pin.split("==") for pin in image.packages) for image in images]
    return {pins[name]: pins["megatron-core"] for pins in found if name in pins}


BRIDGE = cores("megatron-bridge")
"""Megatron-Bridge and Megatron-Core as in nemo:25.09, 25.11 and 26.02."""

NEMO2 = cores("nemo-toolkit")
"""NeMo and the Megatron-Core release nearest to that in nemo:25.02.01, 25.04.00 and 25.04.01."""


def overlay(framework: Mapping[str, str], version: str, folder: Path) -> Path:
    """A folder with one version's packages and nothing that they need."""
    name = "megatron-bridge" if framework is BRIDGE else "nemo-toolkit"
    place = folder / f"{name}-{version}"
    with FileLock(f"{place}.lock"):
        if not place.is_dir():
            pins = [f"{name}=={version}", f"megatron-core=={framework[version]}"]
            uv = require_program(os.environ)
            fresh = place.with_suffix(".part")
            python = ("--python", "3.11", "--python-preference", "system")
            subprocess.run(
                [uv, "pip", "install", *python, "--quiet", "--no-deps", "--target", fresh, *pins], check=True
            )
            fresh.rename(place)
    return place
