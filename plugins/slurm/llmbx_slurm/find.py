"""Find the jobs of run folders without a recorded job id, after llmbx was killed or the controller was unreachable.

A run script that has started has written its job id to the run folder. A pending job is found by its working directory,
because sbatch is always called in the run folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from llmbx.api import (
    InfraError,
    Job,
    Launcher,
    RunFolder,
    RunSpec,
    Unreachable,
)

from .commands import call
from .settings import sbatch_options

LAUNCHER = "slurm"
ACCOUNTED_DAYS = 30
"""Accounting records of this many days are searched."""


def find_jobs(runs: Mapping[Path, RunSpec]) -> dict[Path, Job]:
    """The job of each run folder that has one. Raises `Unreachable` if the controller does not respond."""
    jobs, inside = {}, set()
    for run_dir, spec in runs.items():
        start, is_job = Launcher.read_start(run_dir, spec), _is_job(run_dir)
        process = None if is_job else _process(run_dir)
        if start is not None and (is_job or process):
            suffix = f";{cluster}" if (cluster := sbatch_options(spec).get("clusters")) else ""
            jobs[run_dir] = Job(launcher=LAUNCHER, job_id=start.job_id + suffix, submitted=start.at, process=process)
        if not is_job:
            inside.add(run_dir)
    for cluster, folders in _by_cluster(runs, without={*jobs, *inside}).items():
        ids = _from_queue(cluster, folders)
        if len(ids) < len(folders):
            ids |= _from_accounting(cluster, [folder for folder in folders if folder not in ids])
        for run_dir, job_id in ids.items():
            suffix = f";{cluster}" if cluster else ""
            jobs[run_dir] = Job(launcher=LAUNCHER, job_id=job_id + suffix, submitted=time.time())
    return jobs


def _is_job(run_dir: Path) -> bool:
    """Whether the run's script was rendered for sbatch, not for an existing allocation."""
    try:
        return b"\n#SBATCH " in RunFolder(path=run_dir).read("run.sh")
    except OSError:
        return True


def _process(run_dir: Path) -> str | None:
    """The process of the script of a run inside an allocation; `ENDED` if the script has written its exit code."""
    return Launcher.find_script(run_dir)


def _by_cluster(runs: Mapping[Path, RunSpec], without: Iterable[Path]) -> dict[str, list[Path]]:
    excluded = set(without)
    groups: dict[str, list[Path]] = {}
    for run_dir, spec in runs.items():
        if run_dir not in excluded:
            groups.setdefault(sbatch_options(spec).get("clusters", ""), []).append(run_dir)
    return groups


def _from_queue(cluster: str, folders: list[Path]) -> dict[Path, str]:
    """Job id by folder of this user's jobs from squeue, including ended jobs."""
    at = [f"--clusters={cluster}"] if cluster else []
    text = call("squeue", *at, "--noheader", "--states=all", f"--user={os.getuid()}", "--format=%i|%Z")
    return _match(text, folders)


def _from_accounting(cluster: str, folders: list[Path]) -> dict[Path, str]:
    """Job id by folder from accounting; empty if accounting is disabled."""
    at = [f"--clusters={cluster}"] if cluster else []
    since = time.strftime("%Y-%m-%d", time.localtime(time.time() - ACCOUNTED_DAYS * 86400))
    try:
        text = call(
            "sacct", *at, "--noheader", "--parsable2", "--allocations", f"--user={os.getuid()}",
            f"--starttime={since}", "--format=JobIDRaw,WorkDir",
        )  # fmt: skip
    except Unreachable:
        raise
    except InfraError:
        return {}
    return _match(text, folders)


def _match(text: str, folders: list[Path]) -> dict[Path, str]:
    """The newest job of each folder, from lines of `id|folder`."""
    by_real_path = {os.path.realpath(folder): folder for folder in folders}
    newest: dict[Path, str] = {}
    for line in text.splitlines():
        job_id, _, folder = line.partition("|")
        run_dir = by_real_path.get(folder)
        if run_dir is not None and job_id.isdigit() and int(job_id) > int(newest.get(run_dir, 0)):
            newest[run_dir] = job_id
    return newest
