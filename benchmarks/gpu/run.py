"""Measures llmbx on one GPU, stage by stage: python3 benchmarks/gpu/run.py --stage nemo --out OUT

Runs where torch and JAX are, with the wheels of build/wheelhouse and without a network. Each stage stands alone;
`--only NAME` picks jobs of it, `--until` ends them in time. If the mini fails with the newest Megatron-Bridge, the jobs
after it use 0.3. `--dry-run` prints every command with its specification and what it should take; `--rehearse` runs the
same stages with the minis on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import place
from cases import CASES
from plan import STAGES, Job, Scale, jobs

FIRST = CASES[0].name
"""The job that shows whether the newest Megatron-Bridge runs on this machine."""

LEAST_S = 30
"""Seconds that have to be left for a job to be started."""


def main(argv: list[str]) -> int:
    """Run or print the stages; 1 when a job failed."""
    asked, begun = options().parse_args(argv), time.monotonic()
    scale, stages = Scale(asked.rehearse, asked.gpu_type), asked.stage or list(STAGES)
    if asked.dry_run:
        import foresee

        print(foresee.text({stage: jobs(stage, scale, asked.only) for stage in stages}, scale))
        return 0
    if asked.out is None:
        raise SystemExit("run.py: --out is missing: the folder for the results")
    place.install()
    place.use_bridge(asked.bridge)
    end = begun + asked.until
    results = [run(stage, jobs(stage, scale, asked.only), asked.out / stage, scale, argv, end) for stage in stages]
    return max(results, default=0)


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", action="append", choices=STAGES, help="repeat for several; all without it")
    parser.add_argument("--only", metavar="NAME", help="only the jobs with NAME in their name")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--until", type=float, default=3600, metavar="S", help="end all jobs after S seconds")
    parser.add_argument("--gpu-type", default="h200", help="the GPU's type [default: h200]")
    parser.add_argument("--bridge", choices=place.BRIDGES, default=place.BRIDGES[0], help="Megatron-Bridge's release")
    parser.add_argument("--rehearse", action="store_true", help="minis on a CPU")
    parser.add_argument("--dry-run", action="store_true", help="print, and start nothing")
    return parser


def run(stage: str, planned: list[Job], out: Path, scale: Scale, argv: list[str], end: float) -> int:
    """Do a stage's jobs in order, until `end` (monotonic). The record is complete after each job."""
    import do

    out.mkdir(parents=True, exist_ok=True)
    folders: dict[str, Path] = {}
    record: dict[str, Any] = {
        "stage": stage,
        "rehearsal": scale.rehearse,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python3", "benchmarks/gpu/run.py", *argv]),
        "jobs": [],
    }
    for job in planned:
        left = end - time.monotonic()
        said = do.execute(job, out, folders, left) if left > LEAST_S else {"name": job.name, "skipped": "no time left"}
        if job.name == FIRST and said.get("exit_code"):
            place.use_bridge(place.BRIDGES[-1])
        record["jobs"].append(said)
        (out / "stage.json").write_text(json.dumps(record, indent=1) + "\n")
        print(line(stage, said), flush=True)
    return int(any(said.get("exit_code") for said in record["jobs"]))


def line(stage: str, said: dict[str, Any]) -> str:
    """One job in one line."""
    if "skipped" in said:
        return f"{stage:<16} {said['name']:<28} skipped: {said['skipped']}"
    step, peak = said.get("median_step_s"), said.get("figures", {}).get("bf16_tflops")
    figure = f"{step:.4f} s a step" if step else f"{peak['median']:.1f} TFLOP/s" if peak else ""
    return f"{stage:<16} {said['name']:<28} exit code {said['exit_code']}, {said['seconds']:.0f} s  {figure}".rstrip()


if __name__ == "__main__":
    sys.path.insert(0, place.site("llmbx"))
    sys.exit(main(sys.argv[1:]))
