"""The interface of a runtime: what gives a program its libraries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from ..model import Finding, Image, ImageRequest, Launch, Phase, RunSpec, Wrapping

Progress = Callable[[str], None]
"""Called with one line of progress at a time."""


class Runtime(Protocol):
    """A way to give a program its libraries: a virtual environment, a container tool, or the host itself.

    A container tool may also have `start_failure`, a regular expression for the lines with which it says that a
    container did not start, for a reason that may be gone on another try; and `look_inside(image, install)`, which
    starts a prepared image once before its first run, and returns it with the versions that it has. That raises
    `UsageError` for an image that cannot run a workload.
    """

    name: str
    summary: str

    def available(self) -> str | None:
        """Why this runtime cannot be used here (one line), or None when it can."""

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The image as it will be, without fetching anything: what `--dry-run` shows."""

    def prepare(self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False) -> Image:
        """Fetch, verify and return the image. Raises `InfraError` when it cannot be had."""

    def wrap(self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path) -> Wrapping:
        """How one rank of `phase` is put into the container: a pure function."""

    def check(self, install: Path) -> Finding | None:
        """Really start something in this runtime (for `llmbx doctor`); None when it worked.

        A finding that is a `warning` says that the runtime is not here, any other that it is broken.
        """
