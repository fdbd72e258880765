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

_RUNTIME = ("nvidia-cuda-runtime", "nvidia-cublas")

MAJORS = (11, 12, 13, 14)
"""Versions that a restriction to another one excludes."""


def major(name: str, version: str) -> int | None:
    """The major version of CUDA of one package (normalized name), or None if it has none."""
    if match := _NAME.search(name) or _LOCAL.search(version):
        return int(match[1])
    return int(version.partition(".")[0]) if name in _VERSIONED else None


def majors(packages: Iterable[tuple[str, str]]) -> dict[int, str]:
    """The versions of CUDA of packages (name, version), each with the first such package."""
    first: dict[int, str] = {}
    for name, version in packages:
        cuda = major(name, version)
        if cuda is not None:
            first.setdefault(cuda, f"{name}=={version}")
    return first


def constraints(cuda: int | None) -> tuple[str, ...]:
    """Constraints for a resolver: the runtime of no other CUDA than `cuda` (None: of none)."""
    excluded = [version for version in MAJORS if version != cuda]
    others = [f"{name}-cu{version}<0" for version in excluded for name in _RUNTIME]
    allowed = "<0" if cuda is None else f">={cuda},<{cuda + 1}"
    return (*others, *(f"{name}{allowed}" for name in _VERSIONED))
