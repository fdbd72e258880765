"""One environment that is to be built, and for which interpreter."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from pathlib import Path

from llmbx.api import Environment, Progress

from .interpreters import Interpreter
from .settings import VenvSettings
from .store import EnvironmentPaths, environment_paths


@dataclasses.dataclass(frozen=True)
class BuildRequest:
    """An environment to build in an install."""

    environment: Environment
    install: Path
    interpreter: Interpreter
    progress: Progress
    offline: bool
    settings: VenvSettings

    @cached_property
    def paths(self) -> EnvironmentPaths:
        """Its paths."""
        return environment_paths(self.environment, self.install, self.interpreter.minor)

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"environment {self.paths.label}"

    @property
    def temporary(self) -> Path:
        """The folder for temporary files of the build."""
        return self.paths.folder / ".tmp"

    @property
    def wheels(self) -> Path:
        """The folder of wheels that the user has copied."""
        return self.install / "wheels"

    def report(self, line: str) -> None:
        """Report a line of progress."""
        self.progress(f"{self.title}: {line}")

    def megabytes(self, *pins: str) -> tuple[int | None, int | None]:
        """Download size and disk usage with these builds of variants; None if unknown."""
        sizes = self.environment.variant_mb
        sized = [sizes[pin] for pin in pins if pin in sizes]
        return sized[0] if sized else (self.environment.download_mb, self.environment.disk_mb)

    def packages(self, *pins: str) -> int:
        """The number of packages, with those that these builds of variants need in addition."""
        further = [self.environment.variant_packages.get(pin, ()) for pin in pins]
        return sum(map(len, (*self.environment.steps, *further)))


def size_text(megabytes: float | None) -> str:
    """A size as text."""
    return "an unknown amount" if megabytes is None else f"{megabytes:,.0f} MB"
