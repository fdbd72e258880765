"""Choose the build of each requirement that has several, such as for CPUs and for CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from llmbx.api import Environment, InfraError, Progress, Value, split_pin

from . import cuda, sizes, verified
from .failures import source_problem
from .installer import Installer
from .settings import ALLOW_CUDA_BUILD
from .uv_tool import first_version


class Build(Value, frozen=True):
    """A build of a requirement: its exact version, and the extra index that provides it."""

    pin: str
    index: str | None = None


class Chooser:
    """Chooses the builds of one environment."""

    def __init__(
        self, installer: Installer, minor: str, offline: bool, allow_cuda: bool, progress: Progress
    ) -> None:
        self.installer, self.environment = installer, installer.environment
        self.minor, self.offline, self.allow_cuda = minor, offline, allow_cuda
        self.progress = progress

    def builds(self) -> dict[str, Build]:
        """The first available build of each requirement with variants.

        Raises `InfraError` if there is none, or only one for CUDA, which has to be allowed.
        """
        variants = self.environment.variants
        return {requirement: self._first(builds) for requirement, builds in variants.items()}

    def _first(self, variants: Sequence[tuple[str, str | None]]) -> Build:
        missing = ""
        for pin, extra in variants:
            index = None if self.offline else extra
            for_cuda = _is_for_cuda(self.environment, pin)
            # Before it is looked for: uv may download a file in order to look into it. Offline,
            # only what the user has copied is available.
            if for_cuda and missing and not self.offline:
                self._require_consent(pin, missing)
            build, reason = self._look_for(pin, index)
            if build:
                return build
            if not for_cuda:
                missing = reason
        raise self.installer.failure(self.offline)

    def _look_for(self, pin: str, index: str | None) -> tuple[Build | None, str]:
        """The build if it is available, else the reason."""
        files = self.environment.files
        if files and not verified.has_file(self.environment, pin, self.minor):
            return None, f"its lock has no file of {pin} for Python {self.minor}"
        name, requirement = split_pin(pin)[0], verified.exact(pin) if files else pin
        # What is installed already would not be listed.
        empty = str(self.installer.temporary / "empty")
        arguments = [requirement, "--no-deps", "--dry-run", "--target", empty]
        listed = self.installer.install(arguments, [index] if index else [])
        version = first_version(self.installer.lines) if listed else None
        if version is None:
            return None, _absence(pin, index, self.installer.lines)
        return Build(pin=f"{name}=={version}", index=index), ""

    def _require_consent(self, pin: str, reason: str) -> None:
        """Announce a build for CUDA, which is larger. Raises `InfraError` unless it is allowed."""
        label = f"environment {self.installer.paths.label}"
        large, small = _size(self.environment, pin), _size(self.environment)
        if not self.allow_cuda:
            raise InfraError(
                f"{label} is not built: {reason}, and the CUDA build {pin} is larger: {large}; "
                f"without CUDA: {small}; check the network, put the wheel without CUDA into "
                f"$LLMB_INSTALL/wheels, or allow the CUDA build with --allow-cuda-build or "
                f"{ALLOW_CUDA_BUILD}=1"
            )
        choice = f"{reason}, so the CUDA build {pin} is used: {large}; without CUDA: {small}"
        self.progress(f"{label}: {choice}")


def _size(environment: Environment, *builds: str) -> str:
    count = sizes.packages(environment, *builds)
    download, disk = map(sizes.text, sizes.megabytes(environment, *builds))
    return f"{count} packages, {download} to download, {disk} on disk"


def _is_for_cuda(environment: Environment, pin: str) -> bool:
    """Whether a build of an environment without CUDA, or what comes with it, is for CUDA."""
    if environment.cuda is not None:
        return False
    pins = (pin, *environment.variant_packages.get(pin, ()))
    return bool(cuda.majors(map(split_pin, pins)))


def _absence(pin: str, index: str | None, lines: Sequence[str]) -> str:
    """Why a build is not available, from the output of uv, which looked for it in `index`."""
    if index is None:
        return f"no package source has {pin}"
    address, text = urlsplit(index), "\n".join(lines)
    is_named = f"{address.hostname}" in text or f"{address.path}/" in text
    problem = source_problem(text) if is_named else None
    return f"{index} cannot be reached ({problem})" if problem else f"{index} does not have {pin}"
