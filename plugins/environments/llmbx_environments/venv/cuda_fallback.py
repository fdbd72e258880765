"""An environment for machines without a GPU, of which only a build for CUDA is available: the reason, and consent.

Such a build is many times as large, so it is installed only if the settings allow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from llmbx.api import Environment, InfraError, split_pin

from . import cuda, sizes
from .failures import source_problem
from .settings import ALLOW_CUDA_BUILD


def is_for_cuda(environment: Environment, build: str) -> bool:
    """Whether `build` of an environment without CUDA, or a package that is installed with it, is for CUDA."""
    pins = (build, *environment.variant_packages.get(build, ()))
    return environment.cuda is None and bool(cuda.majors(split_pin(pin) for pin in pins))


def reason(build: str, index: str | None, lines: Sequence[str]) -> str:
    """Why `build` is not available, from the output of the installer that looked for it in `index`."""
    if index is None:
        return f"no package source has {build}"
    address = urlsplit(index)
    text = "\n".join(lines)
    problem = (
        source_problem(text)
        if f"{address.hostname}" in text or f"{address.path}/" in text
        else None
    )
    return f"{index} cannot be reached ({problem})" if problem else f"{index} does not have {build}"


def require_consent(
    environment: Environment, label: str, build: str, reason: str, allowed: bool
) -> str:
    """The line that announces `build`, which is for CUDA. Raises `InfraError` if it is not allowed.

    `reason` says why no build without CUDA is available.
    """
    large, small = sizes.describe(environment, build), sizes.describe(environment)
    if allowed:
        return f"environment {label}: {reason}, so the CUDA build {build} is used: {large}; without CUDA: {small}"
    raise InfraError(
        f"environment {label} is not built: {reason}, and the CUDA build {build} is larger: {large}; without CUDA: "
        f"{small}; check the network, put the wheel without CUDA into $LLMB_INSTALL/wheels, or allow the CUDA build "
        f"with --allow-cuda-build or {ALLOW_CUDA_BUILD}=1"
    )
