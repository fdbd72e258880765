"""The base class of launchers, which start the ranks of a run and report their status."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..model import Finding, Job, JobStatus, Launch, Phase, Proposal, RunSpec, Wrapping, run_folder
from ..model.finding import absent
from . import detached, exits, node_names, processes
from . import script as scripts


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
        """Return the job's current status. Must work in any process on any machine that can read the run folder.

        Raises `Unreachable` while the scheduler cannot be queried: following a run survives that (`outage_limit`).
        """

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

    def outage_limit(self, spec: RunSpec) -> tuple[float, str] | None:
        """Return for how many seconds the scheduler's commands may fail while a run is followed, and where this is set.

        None: for ever. After that llmbx stops following the run, whose job continues. The default is an hour.
        """
        return 3600.0, ""

    def cancel_pending(self, job: Job, run_dir: Path) -> None:
        """Cancel the job if it is pending, and leave it alone if it has started. The default calls `cancel`."""
        self.cancel(job, run_dir)

    def without_node(self, spec: RunSpec, node: str) -> RunSpec | None:
        """Return the specification for another attempt that excludes this node; None if it cannot be excluded."""
        return None

    def on_nodes(self, spec: RunSpec, nodes: Sequence[str]) -> RunSpec | None:
        """Return the specification for a run on exactly these nodes; None if nodes cannot be chosen."""
        return None

    def run_on_node(self, argv: Sequence[str], name: str, settings: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return the command that runs `argv` as the job `name` on one compute node and waits for its end.

        `settings` are those of its plugin. None if this launcher has no such command, which is the default. Raises
        `InfraError` if no node can be reached.
        """
        return None

    def run_on_nodes(
        self, argv: Sequence[str], name: str, settings: Mapping[str, Any], nodes: Sequence[str]
    ) -> tuple[str, ...] | None:
        """Return the command that runs `argv` once on each of these nodes, all at the same time.

        Without `nodes` these are the nodes of the allocation that this process is in. None if there is no such command
        or no allocation, which is the default. Raises `InfraError` if no node can be reached.
        """
        return None

    def unusable_nodes(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Return those of the nodes on which no job can start now, each with the reason, such as a drained node's.

        A node that other jobs use is usable. Empty by default. Raises `InfraError` if the scheduler does not say.
        """
        return {}

    @staticmethod
    def node_names(text: str, option: str = "--nodes") -> tuple[str, ...]:
        """Return the names in a list of nodes, such as `n[01-16,20],m3`.

        Raises `UsageError`, which names the `option`, if it is not such a list.
        """
        return node_names.expand(text, option)

    def release(self, job: Job, run_dir: Path) -> None:  # noqa: B027 (optional)
        """Let a job that this process has just submitted continue when the process ends (`--detach`).

        An attended launcher needs it if its jobs end with the process that submitted them.
        """

    def inside(self, spec: RunSpec) -> Launcher:
        """Return the launcher for the place where llmbx runs: itself, or one that uses the current allocation.

        Raises `UsageError` if the allocation is too small for the run.
        """
        return self

    def too_large(self, spec: RunSpec) -> str | None:
        """Return why its cluster can never run a job of this size (one line); None if it can, or if this is unknown.

        `llmbx list --here` leaves such sizes out.
        """
        return None

    def propose(self) -> Proposal | None:
        """Return its part of a cluster profile for the cluster that it reaches from here; None if there is none.

        `llmbx init` asks it only if it is available. Raises `InfraError` if the scheduler does not answer.
        """
        return None

    @staticmethod
    def start_script(
        script: Path, output: Path, run_dir: Path, environ: Mapping[str, str] | None = None, *, attended: bool = False
    ) -> str:
        """Start the script as a process of this machine, which outlives this one; return its job id.

        With `attended` it ends with this process until `release_script` is called. Raises `InfraError` if it cannot be
        started, `UsageError` for an invalid value of `LLMBX_STOP_GRACE_S`.
        """
        return detached.start(script, output, run_dir, environ, attended=attended)

    @staticmethod
    def script_status(process: str, run_dir: Path, started: float) -> JobStatus:
        """Return the status of a script of this machine: from exit.json if it exists, else from its processes."""
        return detached.status(process, run_dir, started)

    @staticmethod
    def stop_script(process: str, run_dir: Path) -> None:
        """Stop a script of this machine; kill what is left after the grace period. Raises `InfraError` elsewhere."""
        detached.stop(process, run_dir)

    @staticmethod
    def dump_script_stacks(process: str, run_dir: Path) -> None:
        """Make a script of this machine send SIGUSR1 to its ranks. Raises `InfraError` on another host."""
        detached.dump_stacks(process, run_dir)

    @staticmethod
    def release_script(process: str) -> None:
        """Let an attended script of this machine continue when this process ends."""
        detached.release(process)

    @staticmethod
    def recall_script(pid: int, host: str, run_dir: Path) -> str:
        """Return the job id of a script that another process started: `pid` on `host`, as printed by the script."""
        return processes.recall(pid, host, run_dir)

    @staticmethod
    def find_script(run_dir: Path) -> str | None:
        """Return the job id of the script of a run folder, also if it has ended; None if it did not start here."""
        return processes.search(run_dir, run_folder.SCRIPT) or (processes.ENDED if exits.read_exit(run_dir) else None)

    @staticmethod
    def read_start(run_dir: Path, spec: RunSpec) -> exits.Start | None:
        """Read the latest start line in the script's output; None if it has not started."""
        return exits.read_start(run_dir, spec)

    @staticmethod
    def log_name(spec: RunSpec) -> str:
        """Return the name of the main log in the run folder: what the ranks print."""
        return run_folder.log_name(spec)

    @staticmethod
    def batch_name(spec: RunSpec) -> str:
        """Return the name of the file in the run folder that gets the output of the script itself."""
        return run_folder.batch_name(spec)

    @staticmethod
    def command_line(words: Sequence[str]) -> str:
        """Return one command of bash over several lines, with the script's `job_name` in place of `JOB_NAME`."""
        return scripts.folded([scripts.quoted(word) for word in words])

    @staticmethod
    def forget_ranks() -> str:
        """Return the line that unsets the rank variables, for a rank that itself starts a run."""
        return scripts.forget_ranks()

    @staticmethod
    def forget_exit(run_dir: Path) -> None:
        """Remove an earlier `exit.json`, so that it is not taken for the next job's."""
        exits.forget_exit(run_dir)

    @staticmethod
    def check_launch(launch: Launch, wrappings: Sequence[Wrapping]) -> None:
        """Raise `UsageError` for a launch that no script can express."""
        scripts.check_launch(launch, wrappings)

    @staticmethod
    def shell_source(name: str, package: str = __package__) -> str:
        """Return a constant part of the scripts (`common.sh`), from the folder `shell` of `package`."""
        return scripts.shell(name, package)

    @staticmethod
    def script_head(title: str, run_dir: Path, spec: RunSpec, job_id: str, output: str = "") -> str:
        """Return the first lines after the interpreter and the scheduler's options; `job_id` is a shell word.

        A script that is written in advance continues as a copy of itself in a new folder; `output` is the file there
        that gets the output of the copy (empty: it stays where it is).
        """
        return scripts.head(title, run_dir, spec, job_id, output)

    @staticmethod
    def is_written_in_advance(run_dir: Path) -> bool:
        """Whether `run_dir` is the folder of a script that is written in advance, without a timestamp."""
        return scripts.planned(run_dir)

    @staticmethod
    def rank_function(spec: RunSpec, phase: Phase, wrapping: Wrapping, start: Sequence[str] = ()) -> str:
        """Return the bash function that runs one rank of the phase or, with the command `start`, all ranks."""
        return scripts.rank_function(spec, phase, wrapping, start)

    @staticmethod
    def launch_files(launch: Launch) -> str:
        """Return the lines with which the script writes the launch's files and the rank shims."""
        return scripts.files(launch)

    @staticmethod
    def setup_lines(spec: RunSpec) -> list[str]:
        """Return the user's setup lines, run as in a login shell, where unset variables are not an error."""
        return scripts.setup(spec)

    @staticmethod
    def script_phases(launch: Launch) -> str:
        """Return the phases in order, each with its checks; a phase starts when `run` of the previous one returned."""
        return scripts.phases(launch)
