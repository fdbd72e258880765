"""The local launcher: ranks are processes of this machine, supervised by a script and a process of its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from ..errors import UsageError
from ..model import Job, JobStatus, Launch, RunSpec, Wrapping
from ..model.run_folder import batch_name
from . import detached, processes, script
from .base import Launcher
from .exits import forget_exit, read_start

PID_DIGITS = 9
"""Maximum number of digits of a process id."""


class LocalLauncher(Launcher):
    """Starts the ranks as processes of this machine."""

    name = "local"
    summary = "processes of this machine, with their output in the run folder"
    remote = False
    attended = True
    poll_s = 0.2

    def available(self) -> str | None:
        """Return why local runs cannot be started here, or None."""
        return None if shutil.which("bash") else "bash is not on PATH"

    def render(self, spec: RunSpec, launch: Launch, wrappings: tuple[Wrapping, ...], run_dir: Path) -> str:
        """Return the bash script that supervises the ranks of all phases. Raises `UsageError` if it cannot."""
        script.check_launch(launch, wrappings)
        if launch.nodes > 1:
            needs = f"the run needs {launch.nodes} nodes"
            raise UsageError(f"{needs}, but the launcher local has only this machine: choose another with --launcher")
        if any(wrapping.launcher_flags for wrapping in wrappings):
            raise UsageError(
                f"runtime {spec.runtime} needs flags that the launcher local does not support: choose another runtime"
            )
        pairs = zip(launch.phases, wrappings, strict=True)
        blocks = [
            "#!/bin/bash\n" + script.head(f"{spec.experiment}: {launch.world_size} rank(s) here", run_dir, spec, "$$"),
            script.shell("common.sh"),
            script.shell("local.sh"),
            *(script.rank_function(spec, phase, wrapping) for phase, wrapping in pairs),
            "begin",
            script.files(launch),
            *script.setup(spec),
            script.phases(launch),
        ]
        return "\n".join(block.rstrip("\n") + "\n" for block in blocks)

    def submit(self, script: Path, spec: RunSpec, run_dir: Path) -> Job:
        """Start the script under a supervisor, which ends it with this process unless `release` is called."""
        forget_exit(run_dir)
        process = detached.start(script, run_dir / batch_name(spec), run_dir, attended=True)
        return Job(launcher=self.name, job_id=process, submitted=time.time())

    def release(self, job: Job, run_dir: Path) -> None:
        """Let the run continue when this process ends."""
        detached.release(job.job_id)

    def status(self, job: Job, run_dir: Path) -> JobStatus:
        """Return the run's status from exit.json, else from its living processes."""
        return detached.status(job.job_id, run_dir, job.submitted)

    def find(self, runs: Mapping[Path, RunSpec]) -> dict[Path, Job]:
        """Return the jobs of these run folders, by the process id that each script printed when it started."""
        jobs = {}
        for run_dir, spec in runs.items():
            start = read_start(run_dir, spec)
            if start is not None and start.job_id.isdecimal() and len(start.job_id) <= PID_DIGITS:
                identity = processes.recall(int(start.job_id), start.host, run_dir)
                jobs[run_dir] = Job(launcher=self.name, job_id=identity, submitted=start.at)
        return jobs

    def cancel(self, job: Job, run_dir: Path) -> None:
        """Make the script stop its ranks; kill what is left after a grace period. Raises `InfraError` elsewhere."""
        detached.stop(job.job_id, run_dir)

    def dump_stacks(self, job: Job, run_dir: Path) -> None:
        """Make the script send SIGUSR1 to its ranks."""
        detached.dump_stacks(job.job_id, run_dir)
