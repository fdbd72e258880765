"""Finding the jobs of run folders whose job id nobody wrote down: llmbx died, or lost sight of the controller.

A script that has started names its job in the run folder. One that still waits is known by its folder: sbatch is always
called in it, and Slurm remembers where.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from llmbx.errors import InfraError
from llmbx.launchers import processes
from llmbx.launchers.base import Unreachable
from llmbx.launchers.exits import read_exit, read_start
from llmbx.launchers.script import SCRIPT
from llmbx.model import Job, RunSpec

from .settings import sbatch_options
from .tools import call

LAUNCHER = "slurm"
ACCOUNTED_DAYS = 30
"""How far accounting is searched back."""


def find_jobs(runs: Mapping[Path, RunSpec]) -> dict[Path, Job]:
    """The job of each run folder that has one. Raises `Unreachable` when the controller does not answer."""
    found, inside = {}, set()
    for run_dir, spec in runs.items():
        start, is_job = read_start(run_dir, spec), _is_job(run_dir)
        process = None if is_job else _process(run_dir)
        if start is not None and (is_job or process):
            suffix = f";{cluster}" if (cluster := sbatch_options(spec).get("clusters")) else ""
            found[run_dir] = Job(launcher=LAUNCHER, job_id=start.job_id + suffix, submitted=start.at, process=process)
        if not is_job:
            inside.add(run_dir)
    for cluster, folders in _by_cluster(runs, without={*found, *inside}).items():
        ids = _listed(cluster, folders)
        if len(ids) < len(folders):
            ids |= _accounted(cluster, [folder for folder in folders if folder not in ids])
        for run_dir, job_id in ids.items():
            suffix = f";{cluster}" if cluster else ""
            found[run_dir] = Job(launcher=LAUNCHER, job_id=job_id + suffix, submitted=time.time())
    return found


def _is_job(run_dir: Path) -> bool:
    """Whether the run's script was made for sbatch, and not for an allocation that is there already."""
    try:
        return b"\n#SBATCH " in (run_dir / SCRIPT).read_bytes()
    except OSError:
        return True


def _process(run_dir: Path) -> str | None:
    """The process that the script of a run inside an allocation is, or was if it has had its last word."""
    return processes.search(run_dir, SCRIPT) or (processes.ENDED if read_exit(run_dir) else None)


def _by_cluster(runs: Mapping[Path, RunSpec], without: Iterable[Path]) -> dict[str, list[Path]]:
    known = set(without)
    groups: dict[str, list[Path]] = {}
    for run_dir, spec in runs.items():
        if run_dir not in known:
            groups.setdefault(sbatch_options(spec).get("clusters", ""), []).append(run_dir)
    return groups


def _listed(cluster: str, folders: list[Path]) -> dict[Path, str]:
    """What the controller knows of this user's jobs, ended ones included."""
    at = [f"--clusters={cluster}"] if cluster else []
    text = call("squeue", *at, "--noheader", "--states=all", f"--user={os.getuid()}", "--format=%i|%Z")
    return _match(text, folders)


def _accounted(cluster: str, folders: list[Path]) -> dict[Path, str]:
    """What accounting knows; nothing where there is none."""
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
    wanted = {os.path.realpath(folder): folder for folder in folders}
    found: dict[Path, str] = {}
    for line in text.splitlines():
        job_id, _, folder = line.partition("|")
        place = wanted.get(folder)
        if place is not None and job_id.isdigit() and int(job_id) > int(found.get(place, 0)):
            found[place] = job_id
    return found
