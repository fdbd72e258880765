"""The base class of launchers, which start the ranks of a run and report their status."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InfraError
from ..model import Finding, Job, JobStatus, Launch, Proposal, RunSpec, Wrapping

LOCAL = "local"
"""The launcher that is part of core: its ranks run on this machine."""


class Unreachable(InfraError):
    """The scheduler does not answer: the job's status is unknown for now, and a later call may succeed."""


class Launcher(ABC):
    """A way to start ranks. Every launcher renders a script that runs without llmbx, and starts exactly that script.

    A launcher inherits from this class. It sets `name`, `summary`, `remote` and `attended`, and implements `render`,
    `submit`, `status` and `cancel`; everything else has a default. One object serves all runs, and may cache answers of
    a scheduler.
    """

    name: str
    """The name in `--launcher` and in `Job.launcher`."""
    summary: str
    """One line for `llmbx doctor` and for the start of a run."""
    remote: bool
    """Whether ranks run on other machines than this one, so that the runtime need not work here."""
    attended: bool
    """Whether runs are attended by their user: Ctrl-C, SIGTERM and SIGHUP cancel the run, and llmbx enforces its time
    limit.
    """
    poll_s: float = 2.0
    """The shortest interval between two calls of `status` in seconds: short if it reads files, long for a scheduler."""
    flag_syntax: str = ""
    """The command whose flags `Wrapping.launcher_flags` may contain. A runtime that works through flags of a launcher
    checks it for the command that it needs.
    """
    plugin: str = ""
    """The name of the plugin that registered it; set by llmbx."""

    @abstractmethod
    def render(self, spec: RunSpec, launch: Launch, wrappings: tuple[Wrapping, ...], run_dir: Path) -> str:
        """Return the script that starts the launch, with one wrapping per phase. Pure, for tests with golden files.

        Raises `UsageError` for a launch that it cannot start.
        """

    @abstractmethod
    def submit(self, script: Path, spec: RunSpec, run_dir: Path) -> Job:
        """Start the script and return at once. Raises `InfraError` if it cannot be started.

        The script and the launch's files are in the run folder.
        """

    @abstractmethod
    def status(self, job: Job, run_dir: Path) -> JobStatus:
        """Return the job's current status. Must work in any process on any machine that can read the run folder."""

    @abstractmethod
    def cancel(self, job: Job, run_dir: Path) -> None:
        """Stop the job and everything it started. May return before the job has ended."""

    def available(self) -> str | None:
        """Return why this launcher cannot be used here (one line), or None if it can, which is the default."""
        return None

    def check(self, install: Path) -> Finding | None:
        """Query the scheduler, for `llmbx doctor`; return None if it works. By default it asks `available`.

        A finding with `warning=True` means that the launcher is not installed here, any other that it is broken.
        """
        return absent(self.available())

    def watch(self, jobs: Sequence[Job]) -> None:  # noqa: B027 (optional)
        """Announce that `status` will be called for these jobs, so that one query of a scheduler can serve all."""

    def find(self, runs: Mapping[Path, RunSpec]) -> dict[Path, Job]:
        """Return the jobs of these run folders, for runs whose llmbx died before it recorded the job id.

        Folders without a job are omitted; the default finds no job. Raises `Unreachable` if the scheduler does not
        answer.
        """
        return {}

    def dump_stacks(self, job: Job, run_dir: Path) -> None:  # noqa: B027 (optional)
        """Make every rank write its stacks to its log (SIGUSR1). The default does nothing."""

    def claims(self, nodes: int, on_gpus: bool, environ: Mapping[str, str]) -> str | None:
        """Return why this launcher is the default for a run, or None. The first to claim the run is used."""
        return None

    def check_spec(self, spec: RunSpec, environ: Mapping[str, str]) -> None:  # noqa: B027 (optional)
        """Raise `UsageError` for settings that this launcher cannot use. Called before the run has a folder."""

    def complete_spec(self, spec: RunSpec) -> RunSpec:
        """Return the specification with the settings of this launcher's plugin that depend on the rest of the run.

        Raises `UsageError` for an invalid setting.
        """
        return spec

    def time_limit(self, settings: Mapping[str, Any], origins: Mapping[str, str]) -> tuple[int | None, str] | None:
        """Return the time limit in its plugin's settings in minutes (None: unlimited), with its origin; None if unset.

        Raises `UsageError` for an invalid time.
        """
        return None

    def queue_limit(self, spec: RunSpec) -> tuple[float, str] | None:
        """Return for how many seconds the job of a run may be pending, and where this limit is set; None: for ever."""
        return None

    def cancel_pending(self, job: Job, run_dir: Path) -> None:
        """Cancel the job if it is pending, and leave it alone if it has started. The default calls `cancel`."""
        self.cancel(job, run_dir)

    def without_node(self, spec: RunSpec, node: str) -> RunSpec | None:
        """Return the specification for another attempt that excludes this node; None if it cannot be excluded."""
        return None

    def run_on_node(self, argv: Sequence[str], name: str, settings: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return the command that runs `argv` as the job `name` on one compute node and waits for its end.

        `settings` are those of its plugin. None if this launcher has no such command, which is the default. Raises
        `InfraError` if no node can be reached.
        """
        return None

    def release(self, job: Job, run_dir: Path) -> None:  # noqa: B027 (optional)
        """Let a job that this process has just submitted continue when the process ends (`--detach`).

        An attended launcher needs it if its jobs end with the process that submitted them.
        """

    def inside(self, spec: RunSpec) -> Launcher:
        """Return the launcher for the place where llmbx runs: itself, or one that uses the current allocation.

        Raises `UsageError` if the allocation is too small for the run.
        """
        return self

    def propose(self) -> Proposal | None:
        """Return its part of a cluster profile for the cluster that it reaches from here; None if there is none.

        `llmbx init` asks it only if it is available. Raises `InfraError` if the scheduler does not answer.
        """
        return None


def absent(reason: str | None) -> Finding | None:
    """Return the finding of `check` for the answer of `available`."""
    return None if reason is None else Finding(rule="available", problem=reason, fix="", warning=True)
