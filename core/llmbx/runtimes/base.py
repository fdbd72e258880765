"""The base class of runtimes, which give a program its libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import Finding, Image, ImageRequest, Launch, Mount, Phase, RunSpec, Value, Wrapping
from ..model.finding import absent
from . import container_env

if TYPE_CHECKING:
    from ..launchers.base import Launcher

Progress = Callable[[str], None]
"""Called with one line of progress at a time."""


class Offer(Value, frozen=True):
    """Returned by a runtime that can be used for a run by default."""

    rank: int
    """Priority among all offers: the lowest rank that works here is used. Ranks in use: 0 for `host`, 10 for virtual
    environments of runs without GPUs, 20 to 29 for container tools, 40 for virtual environments of other runs.
    """
    reason: str
    """The reason, as shown by `llmbx show`."""


class Runtime(ABC):
    """A way to give a program its libraries: a virtual environment, a container tool, or the host itself.

    A runtime inherits from this class. It sets `name` and `summary`, and implements `plan`, `prepare` and `wrap`;
    everything else has a default. One object serves all runs.
    """

    name: str
    """The name in `--runtime`."""
    summary: str
    """One line for `llmbx doctor`."""
    uses_image: bool = False
    """Whether it starts a container image, so that `--image` can be used with it."""
    shares_host_files: bool = False
    """Whether programs see the host's files, including what is installed there."""
    builds_environments: bool = False
    """Whether it builds environments from their locks."""
    start_failure: str = ""
    """Regular expression for log lines in which the tool reports that a container did not start, for a reason that may
    be temporary. Such a failure is retried.
    """
    plugin: str = ""
    """The name of the plugin that registered it; set by llmbx."""

    @abstractmethod
    def plan(self, request: ImageRequest, install: Path) -> Image:
        """Return the image as `prepare` will return it, without fetching anything, for `--dry-run`."""

    @abstractmethod
    def prepare(self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False) -> Image:
        """Fetch, verify and return the image. With `offline`, use only local files. Raises `InfraError` on failure."""

    @abstractmethod
    def wrap(self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path) -> Wrapping:
        """Return the command prefix that runs one rank of `phase` in the container. Pure.

        `/bin/sh run_dir/rank-ROLE.sh` is appended to `argv`, which must run it in `run_dir`; the container must see
        `run_dir` at the same path. The prefix must pass the variables of `spec.env`, `phase.env`, `phase.forward`,
        `spec.secrets` and `RANK_VARIABLES` that are set, by name and never by value; mount the run folder,
        `launch.mounts` and `spec.mounts`; and make the GPUs visible if the run has any:
        `forwarded_variables`, `container_mounts` and `needs_gpus` return them.
        """

    def available(self) -> str | None:
        """Return why this runtime cannot be used here (one line), or None if it can, which is the default."""
        return None

    def check(self, install: Path) -> Finding | None:
        """Start a program in this runtime, for `llmbx doctor`; return None if it works. By default it asks `available`.

        A finding with `warning=True` means that the runtime is not installed here, any other that it is broken.
        """
        return absent(self.available())

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        """Return an offer if this runtime can be the default for the run, or None, which is the default.

        A runtime that never offers itself is used only if `--runtime` names it.
        """
        return None

    def works_with(self, launcher: Launcher) -> str | None:
        """Return what it needs that this launcher does not have ("needs …"), or None."""
        return None

    def look_inside(self, image: Image, install: Path) -> Image:
        """Start a prepared image once before its first run, and return it with the versions found inside.

        The default returns the image unchanged. Raises `UsageError` for an image that cannot run a workload.
        """
        return image

    @staticmethod
    def forwarded_variables(spec: RunSpec, phase: Phase) -> tuple[str, ...]:
        """Return the names of the variables for a rank of `phase`: the run's, the phase's, secrets, its rank."""
        return container_env.forwarded(spec, phase)

    @staticmethod
    def container_mounts(
        spec: RunSpec, launch: Launch, phase: Phase, run_dir: Path, forbidden: str
    ) -> tuple[Mount, ...]:
        """Return the unique mounts of a container: the run folder, the launch's, the user's, the model cache.

        Raises `UsageError` for a path with one of the characters `forbidden`, which the tool's syntax cannot express.
        """
        return container_env.mounts(spec, launch, phase, run_dir, forbidden)

    @staticmethod
    def needs_gpus(spec: RunSpec, launch: Launch) -> bool:
        """Whether GPUs must be visible inside. In CPU runs `gpus_per_rank` counts CPU devices."""
        return container_env.needs_gpus(spec, launch)

    @staticmethod
    def for_optional_mounts(mounts: Iterable[Mount], action: Callable[[str], str], read_only: str = "ro") -> str:
        """Return POSIX sh that runs `action` (of a quoted mount) for each optional mount whose source exists."""
        return container_env.if_there(mounts, action, read_only)

    @staticmethod
    def for_set_variables(names: tuple[str, ...], action: str) -> str:
        """Return POSIX sh that runs `action` for each of `names` that is set; `$n` is the name."""
        return container_env.only_set(names, action)
