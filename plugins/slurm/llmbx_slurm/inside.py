"""Runs inside an allocation that is there already: the same script, as a process beside its user."""

from __future__ import annotations

import os
import time
from pathlib import Path

from llmbx.errors import UsageError
from llmbx.launchers import detached
from llmbx.launchers.exits import forget_exit
from llmbx.launchers.script import batch_name
from llmbx.model import Job, Launch, RunSpec, Wrapping

from . import render
from .allocation import Allocation, check_cpus
from .launcher import SlurmLauncher, submitted_environment


class InsideLauncher(SlurmLauncher):
    """Starts the ranks as tasks of one srun a phase inside `allocation`, which outlives them.

    The run's job is the allocation's. `status` and its like are the same from everywhere: the job names the process.
    """

    attended = True
    poll_s = 1.0

    def __init__(self, allocation: Allocation) -> None:
        super().__init__()
        self.allocation = allocation
        self.summary = f"steps inside {allocation}; nothing is submitted"

    def available(self) -> str | None:
        """Always None: whoever is inside an allocation can start steps."""
        return None

    def inside(self, spec: RunSpec) -> SlurmLauncher:
        """Itself: there is nothing further inside."""
        return self

    def render(self, spec: RunSpec, launch: Launch, wrappings: tuple[Wrapping, ...], run_dir: Path) -> str:
        """The script. Raises `UsageError` where the allocation is too small for the launch."""
        if launch.nodes > len(self.allocation.hosts):
            raise UsageError(f"the run takes {launch.nodes} nodes and {self.allocation} is what it may use")
        check_cpus(self.allocation, launch.world_size, spec)
        return render.render(spec, launch, wrappings, run_dir, self.allocation)

    def submit(self, script: Path, spec: RunSpec, run_dir: Path) -> Job:
        """Start the script in a session of its own; it outlives this process, but not the allocation."""
        forget_exit(run_dir)
        process = detached.start(script, run_dir / batch_name(spec), run_dir, submitted_environment(spec))
        return Job(launcher=self.name, job_id=self.allocation.job_id, submitted=time.time(), process=process)


def inside(spec: RunSpec) -> InsideLauncher | None:
    """The launcher for the allocation around this process; None outside of any.

    Raises `UsageError` for one that is too small or has ended.
    """
    from .allocation import narrowed, surrounding

    allocation = surrounding(os.environ)
    return InsideLauncher(narrowed(allocation, spec)) if allocation else None
