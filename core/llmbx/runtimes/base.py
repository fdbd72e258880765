"""The interface of a runtime: what gives a program its libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from ..launchers.base import Launcher
from ..model import Finding, Image, ImageRequest, Launch, Phase, RunSpec, Value, Wrapping

Progress = Callable[[str], None]
"""Called with one line of progress at a time."""


class Offer(Value, frozen=True):
    """That a runtime can be used for a run for which none is named."""

    rank: int
    """Its place among all offers: the lowest that works here is taken. Core's host: 0; environments of a run without
    GPUs: 10; container tools: 20 to 29; environments otherwise: 40.
    """
    reason: str
    """Why, for `show`."""


class Runtime(Protocol):
    """A way to give a program its libraries: a virtual environment, a container tool, or the host itself.

    It is one object for all runs. What it may have besides is in `RuntimeExtras`.
    """

    name: str
    """Its name in `--runtime`."""
    summary: str
    """One line for `llmbx doctor`."""

    def available(self) -> str | None:
        """Why this runtime cannot be used here (one line), or None when it can."""

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The image as it will be, without fetching anything: what `--dry-run` shows."""

    def prepare(self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False) -> Image:
        """Fetch, verify and return the image. Raises `InfraError` when it cannot be had."""

    def wrap(self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path) -> Wrapping:
        """How one rank of `phase` is put into the container: a pure function.

        The rank shim follows the words of `argv`: what stands there must start `/bin/sh run_dir/rank-ROLE.sh`, in
        `run_dir`, which the container sees at the same path. It hands on by name, never by value, the variables of
        `spec.env`, `phase.env`, `phase.forward`, `spec.secrets` and `RANK_VARIABLES` that are set; mounts the run
        folder, `launch.mounts` and `spec.mounts`; and shows the GPUs if the run has some. `container_env` lists all of
        these.
        """

    def check(self, install: Path) -> Finding | None:
        """Really start something in this runtime (for `llmbx doctor`); None when it worked.

        A finding that is a `warning` says that the runtime is not here, any other that it is broken.
        """


class RuntimeExtras(Protocol):
    """Members that llmbx does without where a runtime has none."""

    start_failure: str
    """A regular expression for the lines with which the tool says that a container did not start, for a reason that may
    be gone on another try: such a failure is worth a retry.
    """

    uses_image: bool
    """Whether it starts a container image: only then `--image` can be used with it."""
    shares_host_files: bool
    """Whether programs see the host's own files: what is installed here is then there, too."""

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        """Whether it can be used for this run, for which no runtime is named; without it the runtime must be named."""

    def works_with(self, launcher: Launcher) -> str | None:
        """What it needs of a launcher that this one has not ("needs …"), or None."""

    def look_inside(self, image: Image, install: Path) -> Image:
        """Start a prepared image once before its first run, and return it with the versions that it has.

        Raises `UsageError` for an image that cannot run a workload.
        """

    def gather_wheels(self, request: ImageRequest, install: Path, folder: Path, progress: Progress) -> Sequence[Path]:
        """Put the packages of a prepared environment into `folder`, for a machine that builds it without a network.

        Raises `InfraError` for one that cannot be had.
        """
