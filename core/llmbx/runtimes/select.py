"""Which runtime a run uses when none is named: the cluster's, then what works here; always with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from ..errors import InfraError, UsageError, did_you_mean
from ..model import ImageRequest, RunSpec
from .base import Runtime
from .naming import is_file

if TYPE_CHECKING:
    from ..launchers.base import Launcher

AUTO = "auto"
CONTAINERS = ("pyxis", "enroot", "apptainer", "docker")
"""The container tools in order of preference."""

WITHOUT_IMAGE = ("venv", "host")
"""Runtimes that start no image."""

_SRUN_FLAGS = ("pyxis",)


def choose_runtime(
    spec: RunSpec, request: ImageRequest, launcher: Launcher, runtimes: Mapping[str, Runtime], preview: bool = False
) -> tuple[str, str]:
    """The runtime's name and why it was taken.

    A runtime that the user or the cluster profile names is taken; for ranks on this machine it must work here. `auto`
    takes, in order: the host, where LLMBX_PYTHON says that the libraries are here; the environment, for a run without
    GPUs that has one; the first container tool that works here, for a run with an image; the environment. For the image
    of `--image` only container tools will do. Raises `UsageError` for an unknown name or a runtime that the launcher or
    the image cannot use, `InfraError` when nothing works here; a `preview` of a run for elsewhere takes the one that is
    named, or the first of them.
    """
    asked = spec.image if spec.image is not None and spec.image.source == "--image" else None
    if spec.runtime != AUTO:
        name = _named(spec.runtime, launcher, runtimes)
        if asked and name in WITHOUT_IMAGE:
            origin = spec.origins.get("runtime", "--runtime")
            raise UsageError(
                f"--image {asked.reference}: runtime {name} ({origin}) uses no image: "
                f"use --runtime {' or '.join(_tools(launcher, asked.reference))}, or leave --image out"
            )
        if not (preview or launcher.takes_srun_flags) and (why_not := runtimes[name].available()):
            raise InfraError(f"runtime {name}: {why_not}")
        return name, spec.origins.get("runtime", "as asked")
    refused: list[str] = []
    candidates = [(name, reason) for name, reason in _candidates(spec, request, launcher) if name in runtimes]
    for name, reason in candidates:
        if why_not := runtimes[name].available():
            refused.append(f"{name}: {why_not}")
        else:
            return name, f"auto: {reason}"
    if preview and candidates:
        return candidates[0][0], "assumed: no runtime for it works on this machine"
    tried = "; ".join(refused) or "the workload has neither an environment nor an image"
    if asked:
        raise InfraError(f"no container tool works here for --image {asked.reference} ({tried}): install one of them")
    raise InfraError(f"no runtime works here ({tried}): install one, or name one with --runtime")


def _named(name: str, launcher: Launcher, runtimes: Mapping[str, Runtime]) -> str:
    if name not in runtimes:
        raise UsageError(f"no runtime named '{name}'{did_you_mean(name, [*runtimes, AUTO])}")
    if name in _SRUN_FLAGS and not launcher.takes_srun_flags:
        raise UsageError(f"runtime {name} needs a launcher that starts ranks with srun: use --launcher slurm")
    return name


def tools_for(image: str) -> tuple[str, ...]:
    """The container tools that take this image (a reference or a file), in order of preference."""
    fitting = {".sqsh": ("pyxis", "enroot"), ".sif": ("apptainer",)}.get(PurePath(image).suffix)
    return fitting if fitting and is_file(image) else CONTAINERS


def _tools(launcher: Launcher, image: str) -> list[str]:
    return [tool for tool in tools_for(image) if launcher.takes_srun_flags or tool not in _SRUN_FLAGS]


def _candidates(spec: RunSpec, request: ImageRequest, launcher: Launcher) -> list[tuple[str, str]]:
    """Names in order of preference, each with its reason."""
    import os

    found: list[tuple[str, str]] = []
    first = "{} is the first container tool that works here"
    if spec.image is not None and spec.image.source == "--image":
        first += ", for the image of --image"
        return [(tool, first.format(tool)) for tool in _tools(launcher, spec.image.reference)]
    if os.environ.get("LLMBX_PYTHON"):
        found.append(("host", "LLMBX_PYTHON says that the libraries are here"))
    if request.environment and spec.gpu_type == "cpu":
        found.append(("venv", "a run without GPUs needs no container"))
    if request.reference:
        found += [(tool, first.format(tool)) for tool in _tools(launcher, request.reference)]
    if request.environment:
        found.append(("venv", "no container tool works here"))
    return found
