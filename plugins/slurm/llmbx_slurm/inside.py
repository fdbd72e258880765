"""Runs inside an existing allocation: the run script is a local process that starts job steps."""

from __future__ import annotations

import os
import time
from pathlib import Path

from llmbx.api import (
    Job,
    Launch,
    RunSpec,
    UsageError,
    Wrapping,
)

from . import render
from .allocation import Allocation, check_cpus
from .launcher import SlurmLauncher, submitted_environment


class InsideLauncher(SlurmLauncher):
    """Starts the ranks with one srun per phase inside `allocation`, which continues after the run.

    The run has the job id of the allocation. `status` and the other methods of `SlurmLauncher` also work outside of the
    allocation, because the job records the process of the script.
    """

    attended = True
    poll_s = 1.0

    def __init__(self, allocation: Allocation) -> None:
        super().__init__()
        self.allocation = allocation
        self.summary = f"steps inside {allocation}; nothing is submitted"

    def available(self) -> str | None:
        """Always None: steps can be started inside any allocation."""
        return None

    def inside(self, spec: RunSpec) -> SlurmLauncher:
        """This launcher."""
        return self

    def render(self, spec: RunSpec, launch: Launch, wrappings: tuple[Wrapping, ...], run_dir: Path) -> str:
        """Render the run script. Raises `UsageError` if the allocation is too small for the launch."""
        if launch.nodes > len(self.allocation.hosts):
            raise UsageError(
                f"the run needs {launch.nodes} nodes, but {self.allocation} has only {len(self.allocation.hosts)}"
            )
        check_cpus(self.allocation, launch.world_size, spec)
        return render.render(spec, launch, wrappings, run_dir, self.allocation)

    def submit(self, script: Path, spec: RunSpec, run_dir: Path) -> Job:
        """Start the script in a new session; it ends with the allocation, and with this process until `release`."""
        self.forget_exit(run_dir)
        output, variables = run_dir / self.batch_name(spec), submitted_environment(spec)
        process = self.start_script(script, output, run_dir, variables, attended=True)
        return Job(launcher=self.name, job_id=self.allocation.job_id, submitted=time.time(), process=process)

    def release(self, job: Job, run_dir: Path) -> None:
        """Let the run's steps continue when this process ends."""
        assert job.process is not None
        self.release_script(job.process)


def inside(spec: RunSpec) -> InsideLauncher | None:
    """The launcher for the allocation that this process runs in; None outside of an allocation.

    Raises `UsageError` if the allocation is too small or has ended.
    """
    from .allocation import current_allocation, restricted

    allocation = current_allocation(os.environ)
    return InsideLauncher(restricted(allocation, spec)) if allocation else None
