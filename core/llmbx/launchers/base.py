"""The interface of a launcher: what starts the ranks of a run and knows how they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..errors import InfraError
from ..model import Finding, Job, JobStatus, Launch, RunSpec, Wrapping


class Unreachable(InfraError):
    """The scheduler does not answer: nothing is known of the job now, and asking again may help."""


class Launcher(Protocol):
    """A way to start ranks. Every launcher renders a script that runs without llmbx, and starts exactly that script.

    It is one object for all runs, and may remember what a scheduler said. What it may have besides is in
    `LauncherExtras`.
    """

    name: str
    """Its name in `--launcher`, and in `Job.launcher`."""
    summary: str
    """One line for `llmbx doctor` and for the start of a run."""
    remote: bool
    """Whether ranks run on other machines than this one: a runtime then need not work here."""
    attended: bool
    """Whether a run lives only as long as its user waits: Ctrl-C cancels it, and llmbx enforces its time limit."""
    poll_s: float
    """How often `status` may be asked, in seconds: files are cheap, a scheduler is not."""

    def available(self) -> str | None:
        """Why this launcher cannot be used here (one line), or None when it can."""

    def render(self, spec: RunSpec, launch: Launch, wrappings: tuple[Wrapping, ...], run_dir: Path) -> str:
        """The script (one wrapping per phase): a pure function, tested against golden files.

        Raises `UsageError` for a launch that it cannot start.
        """

    def submit(self, script: Path, spec: RunSpec, run_dir: Path) -> Job:
        """Start the script and return at once. Raises `InfraError` when it cannot be started.

        The script lies in the run folder, and so do the launch's files.
        """

    def status(self, job: Job, run_dir: Path) -> JobStatus:
        """How the job stands now, from any process on any machine that can see the run folder."""

    def watch(self, jobs: Sequence[Job]) -> None:
        """Be told that these jobs will be asked for, so that one question to a scheduler can answer for all."""

    def find(self, runs: Mapping[Path, RunSpec]) -> dict[Path, Job]:
        """The jobs that were started in these run folders, for runs whose llmbx died before it could write down the id.

        A folder without a job is left out. Raises `Unreachable` when nobody can say.
        """

    def cancel(self, job: Job, run_dir: Path) -> None:
        """Stop the job and everything it started; returns when it has been told to stop."""

    def dump_stacks(self, job: Job, run_dir: Path) -> None:
        """Ask every rank to write its stacks to its log (SIGUSR1)."""


class LauncherExtras(Protocol):
    """Members that llmbx does without where a launcher has none."""

    flag_syntax: str
    """Which flags `Wrapping.launcher_flags` may hold: the name of the command that takes them. A runtime that works
    through flags of a launcher compares it with what it needs.
    """
    checks_nodes: bool
    """Whether it runs the node checks of `RunSpec.preflight`."""

    def claims(self, nodes: int, on_gpus: bool, environ: Mapping[str, str]) -> str | None:
        """Why this launcher should start a run for which none is named, or None. The first that claims it has it."""

    def check_spec(self, spec: RunSpec, environ: Mapping[str, str]) -> None:
        """Raise `UsageError` for settings that this launcher cannot start a run with, before the run has a folder."""

    def time_limit(self, settings: Mapping[str, Any], origins: Mapping[str, str]) -> tuple[int | None, str] | None:
        """The time limit among its plugin's settings in minutes (None: no limit), with its origin; None for none.

        Raises `UsageError` for one that is not a time.
        """

    def without_node(self, spec: RunSpec, node: str) -> RunSpec | None:
        """The specification for another attempt that leaves this node out; None where it cannot be left out."""

    def run_on_node(self, argv: Sequence[str], name: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The command that runs `argv` as the job `name` on one compute node, and waits for its end.

        `settings` are its plugin's. Raises `InfraError` where no node can be reached.
        """

    def inside(self, spec: RunSpec) -> Launcher:
        """The launcher for where llmbx runs: itself, or one that uses the machines that a scheduler has given us.

        Raises `UsageError` for a place that is too small.
        """

    def check(self, install: Path) -> Finding | None:
        """Really ask the scheduler (for `llmbx doctor`); None when it answered.

        A finding that is a `warning` says that the launcher is not here, any other that it is broken. Without it
        `doctor` asks `available`.
        """


def placed(launcher: Launcher, spec: RunSpec) -> Launcher:
    """The launcher for where llmbx runs: one whose scheduler has given us machines already uses those.

    A launcher that knows of such places has a method `inside(spec)`. Raises `UsageError` for a place that is too small.
    """
    inside = getattr(launcher, "inside", None)
    return launcher if inside is None else inside(spec)
