"""For which major version of CUDA packages are built, from their names and versions."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = re.compile(r"(?:^|-)cu(?:da)?(1\d)x?(?:-|$)")
_LOCAL = re.compile(r"\+cu(1\d)\d")
_VERSIONED = (
    "cuda-toolkit",
    "cuda-bindings",
    "nvidia-cuda-runtime",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvcc",
)
"""Packages that have the version of CUDA."""

MAJORS = (11, 12, 13, 14)
"""Versions that a restriction to another one excludes."""


def major(name: str, version: str) -> int | None:
    """The major version of CUDA of one package (normalized name), or None if it has none."""
    if found := _NAME.search(name) or _LOCAL.search(version):
        return int(found[1])
    return int(version.partition(".")[0]) if name in _VERSIONED else None


def majors(pins: Iterable[tuple[str, str]]) -> dict[int, str]:
    """The versions of CUDA that packages (name, version) are built for, each with the first such package."""
    found: dict[int, str] = {}
    for name, version in pins:
        if (cuda := major(name, version)) is not None:
            found.setdefault(cuda, f"{name}=={version}")
    return found


def constraints(wanted: int | None) -> tuple[str, ...]:
    """Constraints for a resolver: the runtime of no other version of CUDA than `wanted` (None: of no version)."""
    others = [f"{name}-cu{cuda}<0" for cuda in MAJORS if cuda != wanted
              for name in ("nvidia-cuda-runtime", "nvidia-cublas")]  # fmt: skip
    if wanted is None:
        return (*others, *(f"{name}<0" for name in _VERSIONED))
    return (*others, *(f"{name}>={wanted},<{wanted + 1}" for name in _VERSIONED))
