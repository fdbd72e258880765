"""Starts one job of a plan and keeps what is worth keeping of it: small files, a few for each job."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import clocks
import place
import top
from plan import Job

HERE = Path(__file__).parent
LLMBX = [sys.executable, "-c", "from llmbx.cli.main import main; main()"]
STEP = {
    "nemo": re.compile(r"elapsed time per iteration \(ms\): ([\d.]+)"),
    "maxtext": re.compile(r"completed step: \d+, seconds: ([\d.]+)"),
}
"""Where each framework's log has the time of a step; in milliseconds, and in seconds."""

SHORT = 60
"""Lines kept of the beginning and of the end of a log."""

JOB_LIMIT_S = 200
"""Seconds after which a job is stopped."""

STOPPED = 124
"""Exit code of a job that was stopped."""

GRACE_S = 20
"""Seconds that llmbx has to stop its run."""

KEPT_BYTES = 15 * 2**20
"""Profiles up to this size are kept with the results; of larger ones only the reading."""


Record = dict[str, Any]


def execute(job: Job, out: Path, folders: dict[str, Path], seconds: float = JOB_LIMIT_S) -> Record:
    """Run `job` for `seconds` at most, write its files under `out`, and return its record.

    `folders`: run folders of earlier jobs, by name. A job that fails does not stop the others: the machine is there for
    a short time only.
    """
    begun = time.time()
    if "nsys" in job.name and not shutil.which("nsys"):
        return {"name": job.name, "skipped": "nsys is not on PATH"}
    kind = {"llmbx": _llmbx, "program": _program, "bare": _bare}[job.kind]
    samples = out / f"{job.name}.clocks.csv"
    with clocks.sampled(samples):
        code, more = kind(job, out, folders, min(seconds, JOB_LIMIT_S))
    record = {"name": job.name, "command": shown(job), "exit_code": code, "seconds": round(time.time() - begun, 1)}
    return {**record, "clocks": clocks.figures(samples), **more}


def shown(job: Job) -> str:
    """The job's command as one would type it."""
    if job.kind == "bare":
        return f"the command of {job.of} in a copy of its folder, without llmbx"
    first = ["llmbx"] if job.kind == "llmbx" else ["python3"]
    arguments = [f"benchmarks/gpu/{job.argv[0]}", *job.argv[1:]] if job.kind == "program" else list(job.argv)
    return shlex.join([*first, *arguments])


def _llmbx(job: Job, out: Path, folders: dict[str, Path], seconds: float) -> tuple[int, Record]:
    begun = time.time()
    done = _start([*LLMBX, *job.argv], place.environment(job.framework), place.ROOT, seconds)
    (out / f"{job.name}.stderr.txt").write_text(short(done.stderr))
    folder = newest(place.INSTALL, begun)
    if folder is None:
        return done.returncode, {}
    folders[job.name] = folder
    log = next(folder.glob("log-*.out"), None)
    text = log.read_text(errors="replace") if log else ""
    (out / f"{job.name}.log").write_text(short(text))
    row: Record = {}
    if (folder / "result.json").exists():
        shutil.copyfile(folder / "result.json", out / f"{job.name}.result.json")
        workload = json.loads((folder / "result.json").read_text())["workload"]
        row = {"workload": workload["name"], **{key: workload[key] for key in ("size", "dtype", "gpu_type")}}
    more = {**row, "run_id": folder.parent.name, "machine": machine(folder), **times(job, text)}
    return done.returncode, {**more, **(_analysis(job, out, folder) if job.argv[0] == "profile" else {})}


def _analysis(job: Job, out: Path, folder: Path) -> Record:
    """Read the profile: the longest operations and the steps' GPU time. Small profiles are kept, too."""
    read, code = top.analysis(folder), 0
    if read is None:
        done = _start([*LLMBX, "nsys", str(folder)], place.environment(job.framework), place.ROOT)
        read, code = (done.stdout + short(done.stderr), []), done.returncode
    text, steps = read
    (out / f"{job.name}.analysis.txt").write_text(text)
    patterns = ("torch_profile/*", "nsys_profile/*", "maxtext/**/*.xplane.pb")
    files = [file for pattern in patterns for file in folder.glob(pattern)]
    for file in files:
        if file.stat().st_size <= KEPT_BYTES:
            shutil.copyfile(file, out / file.name)
    sizes = {str(file.relative_to(folder)): file.stat().st_size for file in files}
    return {"analysis_exit_code": code, "profile_bytes": sizes, "profiled_steps": steps}


def _program(job: Job, out: Path, folders: dict[str, Path], seconds: float) -> tuple[int, Record]:
    name, *arguments = job.argv
    done = _start([sys.executable, str(HERE / name), *arguments], place.environment(job.framework), place.ROOT, seconds)
    (out / f"{job.name}.log").write_text(done.stdout + done.stderr)
    lines = done.stdout.strip().splitlines()
    figures = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    return done.returncode, {"figures": figures, **(_reading(job, out) if name == "one_rank.py" else {})}


def _reading(job: Job, out: Path) -> Record:
    """What `llmbx nccl` says of NCCL's log."""
    done = _start([*LLMBX, "nccl", str(out / f"{job.name}.log")], place.environment(None), place.ROOT)
    (out / f"{job.name}.reading.txt").write_text(short(done.stdout + done.stderr))
    return {"reading_exit_code": done.returncode}


def _bare(job: Job, out: Path, folders: dict[str, Path], seconds: float) -> tuple[int, Record]:
    """The same interpreter, program, specification and environment, in a new folder, with no llmbx around them."""
    source = folders.get(job.of)
    if source is None:
        return 1, {"skipped": f"{job.of} left no run folder"}
    folder = place.BUILD / "gpu" / "bare" / f"{job.name}-{time.time_ns()}"
    folder.mkdir(parents=True)
    shutil.copytree(source / "code", folder / "code")
    shutil.copyfile(source / "spec.json", folder / "spec.json")
    argv = json.loads((source / "run.json").read_text())["commands"]["train"]
    environment = json.loads((source / "seen.json").read_text())["environment"]
    done = _start(argv, environment, folder, seconds)
    text = done.stdout + done.stderr
    (out / f"{job.name}.log").write_text(short(text))
    return done.returncode, times(job, text)


def _start(
    argv: list[str], environment: dict[str, str], cwd: Path, seconds: float = JOB_LIMIT_S
) -> subprocess.CompletedProcess[str]:
    process = subprocess.Popen(
        argv, env=environment, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    for limit, stop in ((seconds, signal.SIGTERM), (GRACE_S, signal.SIGKILL)):
        try:
            out, err = process.communicate(timeout=limit)
            return subprocess.CompletedProcess(argv, process.returncode, out, err)
        except subprocess.TimeoutExpired:
            process.send_signal(stop)
    out, err = process.communicate()
    return subprocess.CompletedProcess(argv, STOPPED, out, f"{err}\nstopped after {seconds:.0f} s\n")


def newest(install: Path, since: float) -> Path | None:
    """The folder of the run that was started last, at `since` (seconds) or later; None when there is none."""
    records = install.glob("workloads/*/experiments/*/*/*/run.json")
    created = {record.parent: json.loads(record.read_text())["created"] for record in records}
    late = [folder for folder, start in created.items() if start >= since]
    return max(late, key=lambda folder: created[folder], default=None)


def times(job: Job, log: str) -> Record:
    """The steps' times in the log, in seconds, and their median without the first third."""
    unit = 1e3 if job.framework == "nemo" else 1.0
    found = [float(text) / unit for text in STEP[job.framework or "nemo"].findall(log)]
    late = found[len(found) // 3 :]
    return {"step_seconds": found, "median_step_s": statistics.median(late) if late else None}


def machine(folder: Path) -> Record:
    """What the run saw of the machine: GPU, driver, processor, and versions; nothing of its environment."""
    try:
        seen = json.loads((folder / "seen.json").read_text())
    except (OSError, ValueError):
        return {}
    return {name: seen[name] for name in ("gpus", "driver", "cpu", "python", "versions") if name in seen}


def short(text: str) -> str:
    """The beginning and the end of a log, without the folders of the machine."""
    lines = text.replace(str(place.ROOT), ".").splitlines()
    if len(lines) > 2 * SHORT:
        lines = [*lines[:SHORT], f"… {len(lines) - 2 * SHORT} lines …", *lines[-SHORT:]]
    return "\n".join(lines) + "\n"
