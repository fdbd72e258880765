"""Starts one job of a plan and keeps what is worth keeping of it: small files, a few for each job."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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

JOB_LIMIT_S = 480
"""Seconds after which a job is given up. llmbx stops its own run a minute earlier, and leaves no process behind."""


def execute(job: Job, out: Path, folders: dict[str, Path]) -> dict[str, Any]:
    """Run `job`, write its files under `out`, and say how it went. `folders`: run folders of earlier jobs, by name.

    A job that fails does not stop the others: the machine is there for a short time only.
    """
    begun = time.time()
    if "nsys" in job.name and not shutil.which("nsys"):
        return {"name": job.name, "skipped": "no nsys on PATH"}
    code, said = {"llmbx": _llmbx, "program": _program, "bare": _bare}[job.kind](job, out, folders)
    facts = {"name": job.name, "command": shown(job), "exit_code": code, "seconds": round(time.time() - begun, 1)}
    return {**facts, **said}


def shown(job: Job) -> str:
    """The job's command as one would type it."""
    if job.kind == "bare":
        return f"the command of {job.of} in a copy of its folder, without llmbx"
    first = ["llmbx"] if job.kind == "llmbx" else ["python3"]
    arguments = [f"benchmarks/gpu/{job.argv[0]}", *job.argv[1:]] if job.kind == "program" else list(job.argv)
    return shlex.join([*first, *arguments])


def _llmbx(job: Job, out: Path, folders: dict[str, Path]) -> tuple[int, dict[str, Any]]:
    begun = time.time()
    done = _start([*LLMBX, *job.argv], place.environment(job.framework), place.ROOT)
    (out / f"{job.name}.stderr.txt").write_text(short(done.stderr))
    folder = newest(place.INSTALL, begun)
    if folder is None:
        return done.returncode, {}
    folders[job.name] = folder
    log = next(folder.glob("log-*.out"), None)
    text = log.read_text(errors="replace") if log else ""
    (out / f"{job.name}.log").write_text(short(text))
    if (folder / "result.json").exists():
        shutil.copyfile(folder / "result.json", out / f"{job.name}.result.json")
    said = {"run_id": folder.parent.name, "machine": machine(folder), **times(job, text)}
    return done.returncode, {**said, **(_analysis(job, out, folder) if job.argv[0] == "profile" else {})}


def _analysis(job: Job, out: Path, folder: Path) -> dict[str, Any]:
    """What a profile says, and how large its files are: they themselves stay behind."""
    said, code = top.analysis(folder), 0
    if said is None:
        done = _start([*LLMBX, "nsys", str(folder)], place.environment(job.framework), place.ROOT)
        said, code = done.stdout + short(done.stderr), done.returncode
    (out / f"{job.name}.analysis.txt").write_text(said)
    sizes = {
        str(file.relative_to(folder)): file.stat().st_size
        for pattern in ("torch_profile/*", "nsys_profile/*", "maxtext/**/*.xplane.pb")
        for file in folder.glob(pattern)
    }
    return {"analysis_exit_code": code, "profile_bytes": sizes}


def _program(job: Job, out: Path, folders: dict[str, Path]) -> tuple[int, dict[str, Any]]:
    name, *arguments = job.argv
    done = _start([sys.executable, str(HERE / name), *arguments], place.environment(job.framework), place.ROOT)
    (out / f"{job.name}.log").write_text(done.stdout + done.stderr)
    lines = done.stdout.strip().splitlines()
    figures = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    return done.returncode, {"figures": figures, **(_reading(job, out) if name == "one_rank.py" else {})}


def _reading(job: Job, out: Path) -> dict[str, Any]:
    """What `llmbx nccl` says of NCCL's log."""
    done = _start([*LLMBX, "nccl", str(out / f"{job.name}.log")], place.environment(None), place.ROOT)
    (out / f"{job.name}.reading.txt").write_text(short(done.stdout + done.stderr))
    return {"reading_exit_code": done.returncode}


def _bare(job: Job, out: Path, folders: dict[str, Path]) -> tuple[int, dict[str, Any]]:
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
    done = _start(argv, environment, folder)
    text = done.stdout + done.stderr
    (out / f"{job.name}.log").write_text(short(text))
    return done.returncode, times(job, text)


def _start(argv: list[str], environment: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, env=environment, cwd=cwd, capture_output=True, text=True, errors="replace", timeout=JOB_LIMIT_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        said = f"stopped after {late.timeout:.0f} s\n"
        return subprocess.CompletedProcess(argv, 124, "", said)


def newest(install: Path, since: float) -> Path | None:
    """The folder of the run that was started last, at `since` (seconds) or later; None when there is none."""
    records = install.glob("workloads/*/experiments/*/*/*/run.json")
    created = {record.parent: json.loads(record.read_text())["created"] for record in records}
    late = [folder for folder, start in created.items() if start >= since]
    return max(late, key=lambda folder: created[folder], default=None)


def times(job: Job, log: str) -> dict[str, Any]:
    """The steps' times in the log, in seconds, and their median without the first third."""
    unit = 1e3 if job.framework == "nemo" else 1.0
    found = [float(text) / unit for text in STEP[job.framework or "nemo"].findall(log)]
    late = found[len(found) // 3 :]
    return {"step_seconds": found, "median_step_s": statistics.median(late) if late else None}


def machine(folder: Path) -> dict[str, Any]:
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
