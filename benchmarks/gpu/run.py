"""Measures llmbx on one GPU, stage by stage: python3 benchmarks/gpu/run.py --stage nemo --out OUT

Runs where torch and JAX are, with the wheels of build/wheelhouse and without a network. Each stage takes less than ten
minutes and stands alone; `--only NAME` picks jobs of it. `--dry-run` prints every command with its specification and
what it should take; `--rehearse` runs the same stages with the minis on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import place
from plan import STAGES, Job, Scale, jobs


def main(argv: list[str]) -> int:
    """Run or print the stages; 1 when a job failed."""
    asked = options().parse_args(argv)
    scale, stages = Scale(asked.rehearse), asked.stage or list(STAGES)
    if asked.dry_run:
        import foresee

        print(foresee.text({stage: jobs(stage, scale, asked.only) for stage in stages}, scale))
        return 0
    if asked.out is None:
        raise SystemExit("run.py: --out is missing: the folder for the results")
    place.install()
    results = [run(stage, jobs(stage, scale, asked.only), asked.out / stage, scale, argv) for stage in stages]
    return max(results, default=0)


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", action="append", choices=STAGES, help="repeat for several; all without it")
    parser.add_argument("--only", metavar="NAME", help="only the jobs with NAME in their name")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--rehearse", action="store_true", help="minis on a CPU")
    parser.add_argument("--dry-run", action="store_true", help="print, and start nothing")
    return parser


def run(stage: str, planned: list[Job], out: Path, scale: Scale, argv: list[str]) -> int:
    """Do a stage's jobs in order; its record is complete after each of them, should the machine be gone."""
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
        said = do.execute(job, out, folders)
        record["jobs"].append(said)
        (out / "stage.json").write_text(json.dumps(record, indent=1) + "\n")
        print(line(stage, said), flush=True)
    return int(any(said.get("exit_code") for said in record["jobs"]))


def line(stage: str, said: dict[str, Any]) -> str:
    """One job in one line."""
    if "skipped" in said:
        return f"{stage:<16} {said['name']:<28} skipped: {said['skipped']}"
    step, tflops = said.get("median_step_s"), said.get("figures", {}).get("tflops")
    figure = f"{step:.3f} s a step" if step else f"{tflops:.1f} TFLOP/s" if tflops else ""
    return f"{stage:<16} {said['name']:<28} exit code {said['exit_code']}, {said['seconds']:.0f} s  {figure}".rstrip()


if __name__ == "__main__":
    sys.path.insert(0, place.site("llmbx"))
    sys.exit(main(sys.argv[1:]))
