"""What a newcomer waits for: python benchmarks/first_run.py [--workloads grok1] [--dtypes fp32] [--isa native,avx2]

Runs each workload's mini in a fresh install, twice: "cold" builds the environment first (pip's and uv's caches stay as
they are; --no-cache empties them, too), "warm" finds it. `--isa avx2` takes newer instructions away from torch
and JAX, which makes any x86_64 machine one with AVX2 only. Needs the network for the cold run.

Columns, in seconds: prepare (environment), first step (from the start of training), a step (mean of the window), and
the whole command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LLMBX = str(Path(sys.executable).with_name("llmbx"))
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
XLA_AVX2 = ("--env", "XLA_FLAGS=--xla_cpu_max_isa=AVX2")
HEAD = (
    f"{'workload':<10}{'dtype':<6}{'CPU':<8}{'start':<6}{'prepare':>9}{'first step':>12}{'a step':>9}{'whole':>8}"
    f"{'loss':>18}"
)


def timed(workload: str, dtype: str, isa: str, steps: int, install: Path, caches: Path | None) -> dict[str, Any]:
    """One run as a user types it: its result, and the seconds of the whole command."""
    env = {**os.environ, "LLMB_INSTALL": str(install), "LLMBX_CONFIG": os.devnull}
    if caches:
        env |= {"UV_CACHE_DIR": str(caches / "uv"), "PIP_CACHE_DIR": str(caches / "pip")}
    more = XLA_AVX2 if isa == "avx2" else ()
    began = time.perf_counter()
    argv = [LLMBX, "run", workload, "--dtype", dtype, "--steps", str(steps), *more, "--format", "json"]
    done = subprocess.run(argv, env=env | (AVX2 if isa == "avx2" else {}), stdout=subprocess.PIPE, check=False)
    whole = time.perf_counter() - began
    if not done.stdout:
        raise SystemExit(f"{workload} ended with {done.returncode}")
    return {**json.loads(done.stdout), "whole_s": whole}


def row(found: dict[str, Any], isa: str, start: str) -> str:
    """One line of the table."""
    asked, took, step = found["workload"], found["timing"], found["step_time_s"]["mean"]
    loss = "{first:.3f} to {last:.3f}".format(**found["loss"])
    return (
        f"{asked['name']:<10}{asked['dtype']:<6}{isa:<8}{start:<6}{took['prepare_s']:>9.1f}{took['first_step_s']:>12.1f}"
        f"{step:>9.3f}{found['whole_s']:>8.1f}{loss:>18}"
    )


def main() -> int:
    """Print the table; 1 when a run was not completed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="grok1", help="names, by commas [default: grok1]")
    parser.add_argument("--dtypes", default="fp32", help="by commas [default: fp32]")
    parser.add_argument("--isa", default="native", help="native, avx2, or both by commas [default: native]")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--no-cache", action="store_true", help="fetch every package anew")
    asked = parser.parse_args()
    print(HEAD, flush=True)
    good = True
    with tempfile.TemporaryDirectory(prefix="llmbx-first-run-") as folder:
        install, caches = Path(folder) / "install", Path(folder) / "caches" if asked.no_cache else None
        built: set[str] = set()
        for workload in asked.workloads.split(","):
            for dtype in asked.dtypes.split(","):
                for isa in asked.isa.split(","):
                    for start in ("cold", "warm") if workload not in built else ("warm",):
                        found = timed(workload, dtype, isa, asked.steps, install, caches)
                        good = good and found["status"] == "completed"
                        print(row(found, isa, start), flush=True)
                    built.add(workload)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
