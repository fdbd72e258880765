"""Choose the build of each requirement that has several, such as for CPUs and for CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from llmbx.api import Environment, InfraError, Value

from ..lock_file import Pin
from . import cuda, verified
from .failures import source_problem
from .installer import Installer
from .request import BuildRequest, size_text
from .settings import ALLOW_CUDA_BUILD
from .uv_tool import first_version


class Build(Value, frozen=True):
    """A build of a requirement: its exact version, and the extra index that provides it."""

    pin: str
    index: str | None = None


class Chooser:
    """Chooses the builds of one environment."""

    def __init__(self, request: BuildRequest, installer: Installer) -> None:
        self.request, self.installer = request, installer
        self.environment = request.environment

    def builds(self) -> dict[str, Build]:
        """The first available build of each requirement with variants.

        Raises `InfraError` if there is none, or only one for CUDA, which has to be allowed.
        """
        variants = self.environment.variants
        return {requirement: self._first(builds) for requirement, builds in variants.items()}

    def _first(self, variants: Sequence[tuple[str, str | None]]) -> Build:
        missing = ""
        for pin, extra in variants:
            index = None if self.request.offline else extra
            for_cuda = _is_for_cuda(self.environment, pin)
            # Before it is looked for: uv may download a file in order to look into it. Offline,
            # only what the user has copied is available.
            if for_cuda and missing and not self.request.offline:
                self._require_consent(pin, missing)
            build, reason = self._look_for(pin, index)
            if build:
                return build
            if not for_cuda:
                missing = reason
        raise self.installer.failure()

    def _look_for(self, pin: str, index: str | None) -> tuple[Build | None, str]:
        """The build if it is available, else the reason."""
        files = self.environment.files
        minor = self.request.interpreter.minor
        if files and not verified.has_file(self.environment, pin, minor):
            return None, f"its lock has no file of {pin} for Python {minor}"
        name, requirement = Pin.of(pin)[0], verified.exact(pin) if files else pin
        # What is installed already would not be listed.
        empty = str(self.request.temporary / "empty")
        arguments = [requirement, "--no-deps", "--dry-run", "--target", empty]
        listed = self.installer.install(arguments, [index] if index else [])
        version = first_version(self.installer.lines) if listed else None
        if version is None:
            return None, _absence(pin, index, self.installer.lines)
        return Build(pin=f"{name}=={version}", index=index), ""

    def _require_consent(self, pin: str, reason: str) -> None:
        """Announce a build for CUDA, which is larger. Raises `InfraError` unless it is allowed."""
        large, small = self._size(pin), self._size()
        if not self.request.settings.allow_cuda_build:
            raise InfraError(
                f"{self.request.title} is not built: {reason}, and the CUDA build {pin} is larger: "
                f"{large}; without CUDA: {small}; check the network, put the wheel without CUDA "
                f"into $LLMB_INSTALL/wheels, or allow the CUDA build with --allow-cuda-build or "
                f"{ALLOW_CUDA_BUILD}=1"
            )
        choice = f"so the CUDA build {pin} is used: {large}; without CUDA: {small}"
        self.request.report(f"{reason}, {choice}")

    def _size(self, *pins: str) -> str:
        download, disk = map(size_text, self.request.megabytes(*pins))
        count = self.request.packages(*pins)
        return f"{count} packages, {download} to download, {disk} on disk"


def _is_for_cuda(environment: Environment, pin: str) -> bool:
    """Whether a build of an environment without CUDA, or what comes with it, is for CUDA."""
    if environment.cuda is not None:
        return False
    pins = (pin, *environment.variant_packages.get(pin, ()))
    return bool(cuda.majors(map(Pin.of, pins)))


def _absence(pin: str, index: str | None, lines: Sequence[str]) -> str:
    """Why a build is not available, from the output of uv, which looked for it in `index`."""
    if index is None:
        return f"no package source has {pin}"
    address, text = urlsplit(index), "\n".join(lines)
    is_named = f"{address.hostname}" in text or f"{address.path}/" in text
    problem = source_problem(text) if is_named else None
    return f"{index} cannot be reached ({problem})" if problem else f"{index} does not have {pin}"
