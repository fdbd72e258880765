"""The local launcher: the ranks are processes of this machine, kept by a script that runs detached like a batch job."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import InfraError, UsageError
from ..model import Job, JobStatus, Launch, RunSpec, Wrapping
from . import processes, script
from .exits import exit_status, forget_exit, read_exit, read_start

STOP_GRACE = "LLMBX_STOP_GRACE_S"
"""The variable that says how many seconds the script gives its ranks between TERM and KILL (10 when it is not set)."""
SCRIPT_GRACE_S = 10.0
"""How much longer `cancel` waits for the script itself, before it kills everything that the script started."""


class LocalLauncher:
    """Starts the ranks as processes of this machine."""

    name = "local"
    summary = "processes of this machine, detached, with their output in the run folder"
    takes_srun_flags = False
    attended = True
    poll_s = 0.2

    def available(self) -> str | None:
        """Why local runs cannot be started here, or None."""
        return None if shutil.which("bash") else "bash is not on PATH"

    def render(self, spec: RunSpec, launch: Launch, wrappings: tuple[Wrapping, ...], run_dir: Path) -> str:
        """The bash script that keeps the ranks of all phases. Raises `UsageError` for a launch it cannot start."""
        script.check_launch(launch, wrappings)
        if launch.nodes > 1:
            raise UsageError(f"the local launcher has one machine, the run needs {launch.nodes}; use --launcher slurm")
        if any(wrapping.launcher_flags for wrapping in wrappings):
            raise UsageError(
                f"runtime '{spec.runtime}' works through flags of srun; use --launcher slurm or another runtime"
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
        pid = _start(script, run_dir / f"sbatch_{spec.experiment}.out", run_dir)
        return Job(launcher=self.name, job_id=processes.identify(pid, run_dir), submitted=time.time())

    def status(self, job: Job, run_dir: Path) -> JobStatus:
        """How the run stands: its script's last word, else whether the script or at least some of its ranks live."""
        end = read_exit(run_dir)
        if end is not None:
            return exit_status(end)
        found = processes.look(job.job_id, run_dir)
        if found.elsewhere:
            return JobStatus(state="running", reason=f"runs on {found.elsewhere}", started=job.submitted)
        if found.leader:
            return JobStatus(state="running", started=job.submitted)
        end = read_exit(run_dir)  # it may have had its last word since
        if end is not None:
            return exit_status(end)
        if found.others:
            reason = f"its script was killed, {len(found.others)} of its processes go on"
            return JobStatus(state="running", reason=reason, started=job.submitted)
        return JobStatus(state="lost", reason=f"its script ended without a word{found.because}", started=job.submitted)

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
        found = self._here(job, run_dir)
        if found.leader:
            processes.send(found.leader, signal.SIGTERM)
        deadline = time.monotonic() + float(os.environ.get(STOP_GRACE, 10)) + SCRIPT_GRACE_S
        while found.leader and time.monotonic() < deadline:
            time.sleep(0.1)
            found = processes.look(job.job_id, run_dir)
        for pid in found.all:
            processes.send(pid, signal.SIGKILL)

    def dump_stacks(self, job: Job, run_dir: Path) -> None:
        """Have the script pass SIGUSR1 to its ranks."""
        leader = self._here(job, run_dir).leader
        if leader:
            processes.send(leader, signal.SIGUSR1)

    def _here(self, job: Job, run_dir: Path) -> processes.Found:
        found = processes.look(job.job_id, run_dir)
        if found.elsewhere:
            raise InfraError(f"job {job.job_id} runs on {found.elsewhere}, it can only be reached there")
        return found


def _start(script: Path, output: Path, run_dir: Path) -> int:
    import subprocess

    try:
        with output.open("ab") as out:
            process = subprocess.Popen(
                ["bash", os.fspath(script)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=run_dir, start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise InfraError(f"{script} could not be started: {error.strerror or error}") from error
    process.returncode = 0  # followed through its files; `processes.look` takes its exit code off the kernel's hands
    return process.pid
