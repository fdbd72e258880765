"""The local launcher: the ranks are processes of this machine, kept by a script that runs detached like a batch job."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import UsageError
from ..model import Job, JobStatus, Launch, RunSpec, Wrapping
from ..model.run_folder import batch_name
from . import detached, processes, script
from .exits import forget_exit, read_start


class LocalLauncher:
    """Starts the ranks as processes of this machine."""

    name = "local"
    summary = "processes of this machine, detached, with their output in the run folder"
    remote = False
    attended = True
    poll_s = 0.2

    def available(self) -> str | None:
        """Why local runs cannot be started here, or None."""
        return None if shutil.which("bash") else "bash is not on PATH"

    def render(self, spec: RunSpec, launch: Launch, wrappings: tuple[Wrapping, ...], run_dir: Path) -> str:
        """The bash script that keeps the ranks of all phases. Raises `UsageError` for a launch it cannot start."""
        script.check_launch(launch, wrappings)
        if launch.nodes > 1:
            takes = f"the run takes {launch.nodes} nodes"
            raise UsageError(f"{takes} and the launcher local has one machine: choose another with --launcher")
        if any(wrapping.launcher_flags for wrapping in wrappings):
            raise UsageError(
                f"runtime {spec.runtime} works through flags that the launcher local does not take: choose another"
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
        """Start the script in a session of its own; it outlives this process."""
        forget_exit(run_dir)
        process = detached.start(script, run_dir / batch_name(spec), run_dir)
        return Job(launcher=self.name, job_id=process, submitted=time.time())

    def status(self, job: Job, run_dir: Path) -> JobStatus:
        """How the run stands: its script's last word, else whether the script or at least some of its ranks live."""
        return detached.status(job.job_id, run_dir, job.submitted)

    def watch(self, jobs: Sequence[Job]) -> None:
        """Nothing: a local run is looked for in its folder."""

    def find(self, runs: Mapping[Path, RunSpec]) -> dict[Path, Job]:
        """The jobs of these run folders, by the process id that each script wrote first."""
        found = {}
        for run_dir, spec in runs.items():
            start = read_start(run_dir, spec)
            if start is not None:
                identity = processes.recall(int(start.job_id), start.host, run_dir)
                found[run_dir] = Job(launcher=self.name, job_id=identity, submitted=start.at)
        return found

    def cancel(self, job: Job, run_dir: Path) -> None:
        """Have the script stop its ranks; what is left after a grace is killed. Raises `InfraError` on another host."""
        detached.stop(job.job_id, run_dir)

    def dump_stacks(self, job: Job, run_dir: Path) -> None:
        """Have the script pass SIGUSR1 to its ranks."""
        detached.dump_stacks(job.job_id, run_dir)
