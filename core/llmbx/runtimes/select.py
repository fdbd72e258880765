"""Which runtime a run uses when none is named: the cluster's, then what works here; always with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import InfraError, UsageError, did_you_mean
from ..model import ImageRequest, RunSpec
from .base import Runtime

if TYPE_CHECKING:
    from ..launchers.base import Launcher

AUTO = "auto"
CONTAINERS = ("pyxis", "enroot", "apptainer", "docker")
"""The container tools in order of preference."""

_SRUN_FLAGS = ("pyxis",)


def choose_runtime(
    spec: RunSpec, request: ImageRequest, launcher: Launcher, runtimes: Mapping[str, Runtime], preview: bool = False
) -> tuple[str, str]:
    """The runtime's name and why it was taken.

    A runtime that the user or the cluster profile names is taken; for ranks on this machine it must work here. `auto`
    takes, in order: the host, where LLMBX_PYTHON says that the libraries are here; the environment, for a run without
    GPUs that has one; the first container tool that works here, for a run with an image; the environment. Raises
    `UsageError` for an unknown name or a runtime that the launcher cannot serve, `InfraError` when nothing works here;
    a `preview` of a run for elsewhere takes the one that is named, or the first of them.
    """
    if spec.runtime != AUTO:
        name = _named(spec.runtime, launcher, runtimes)
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
    raise InfraError(f"no runtime works here ({tried}): install one, or name one with --runtime")


def _named(name: str, launcher: Launcher, runtimes: Mapping[str, Runtime]) -> str:
    if name not in runtimes:
        raise UsageError(f"no runtime named '{name}'{did_you_mean(name, [*runtimes, AUTO])}")
    if name in _SRUN_FLAGS and not launcher.takes_srun_flags:
        raise UsageError(f"runtime {name} needs a launcher that starts ranks with srun: use --launcher slurm")
    return name


def _candidates(spec: RunSpec, request: ImageRequest, launcher: Launcher) -> list[tuple[str, str]]:
    """Names in order of preference, each with its reason."""
    import os

    found: list[tuple[str, str]] = []
    if os.environ.get("LLMBX_PYTHON"):
        found.append(("host", "LLMBX_PYTHON says that the libraries are here"))
    asked = spec.image is not None and spec.image.source == "--image"
    if request.environment and spec.gpu_type == "cpu" and not asked:
        found.append(("venv", "a run without GPUs needs no container"))
    if request.reference:
        tools = [tool for tool in CONTAINERS if launcher.takes_srun_flags or tool not in _SRUN_FLAGS]
        because = ", for the image of --image" if asked else ""
        found += [(tool, f"{tool} is the first container tool that works here{because}") for tool in tools]
    if request.environment:
        found.append(("venv", "no container tool works here"))
    return found
