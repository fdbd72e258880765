"""Listing and filtering 100,000 runs, against reading every result.json: python benchmarks/history.py [RUNS] [FOLDER]

Makes an install of format-true runs (run.json and result.json, as llmbx writes them) in FOLDER (default: a temporary
one) unless it is there already, has `llmbx jobs rebuild` read it, and times each command from start to exit, beside
`llmbx --help` (start-up alone) and beside a script that opens every result.json to answer the same question. The aim:
at most 200 ms beyond start-up (printing all 100,000 runs, 90 MB of JSON, is shown beside it).
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from llmbx.measure.figures import measure
from llmbx.model import Image, JobStatus, ModelShape, Parallelism, Peak, RunSpec, Step
from llmbx.record.folder import Record, SweepMark, current_user, pretty, sealed, write_steps
from llmbx.record.short_ids import derived
from llmbx.run.result import build_result

LLMBX = str(Path(sys.executable).with_name("llmbx"))
ROUNDS = 9
AIM_MS = 200.0
PER_EXPERIMENT = 200

SCAN = """
import json, pathlib, sys
found = []
for path in pathlib.Path(sys.argv[1]).glob("workloads/*/experiments/*/*/*/result.json"):
    result = json.loads(path.read_bytes())
    mean = result["step_time_s"]["mean"]
    if mean is not None and mean < 1 and result["workload"]["gpus"] >= 64:
        found.append((result["run_id"], mean))
print(len(found))
"""

COMMANDS: dict[str, list[str]] = {
    "llmbx --help": ["--help"],
    "jobs": ["jobs"],
    "jobs --workload --size --dtype --gpu-type --gpus": [
        "jobs", "--workload", "line", "--size", "8b", "--dtype", "bf16", "--gpu-type", "h100", "--gpus", "64"],
    "jobs --status failed --format json": ["jobs", "--status", "failed", "--format", "json", "--limit", "1000"],
    "jobs --tag nightly --since": ["jobs", "--tag", "nightly", "--since", "2023-11-20"],
    "jobs --where": ["jobs", "--where", "step_time_s.mean < 1 and gpus >= 64"],
    "jobs --sort -tokens_per_s": ["jobs", "--sort", "-tokens_per_s", "--limit", "20"],
    "status last": ["status", "last"],
    "all of them: --format csv": ["jobs", "--format", "csv"],
    "all of them: --format json": ["jobs", "--format", "json"],
}  # fmt: skip


def main() -> int:
    """Make the install, time the commands, print the table; 1 when a listing is past its aim."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    own = len(sys.argv) <= 2
    base = Path(tempfile.mkdtemp() if own else sys.argv[2])
    install = base / "install"
    try:
        if not install.is_dir():
            generate(install, count)
        return report(install, {**os.environ, "LLMB_INSTALL": str(install), "XDG_CACHE_HOME": str(base / "cache")})
    finally:
        if own:
            shutil.rmtree(base)


def report(install: Path, env: dict[str, str]) -> int:
    """The table of one install."""
    began = time.perf_counter()
    done = subprocess.run([LLMBX, "jobs", "rebuild"], env=env, check=True, capture_output=True, text=True)
    print(f"rebuild: {time.perf_counter() - began:.1f} s ({done.stdout.strip()})")
    plain = min(timed([sys.executable, "-c", SCAN, str(install)], env) for _ in range(2))
    print(f"plain scan over result.json, warm: {plain / 1000:.2f} s")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {ROUNDS} rounds in turn")
    print(f"{'command':<50}{'median ms':>10}{'min':>6}{'beyond start':>14}{'min':>6}{'scan /':>8}")
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, arguments in COMMANDS.items():
            times[name].append(timed([LLMBX, *arguments], env))
    start, *_ = times.values()
    late = False
    for name, found in times.items():
        median, least = statistics.median(found), min(found)
        beyond = median - statistics.median(start)
        late = late or (beyond > AIM_MS and not name.startswith("all"))
        print(f"{name:<50}{median:>10.0f}{least:>6.0f}{beyond:>14.0f}{least - min(start):>6.0f}{plain / median:>8.0f}")
    return 1 if late else 0


def timed(command: list[str], env: dict[str, str]) -> float:
    """Milliseconds from start to exit."""
    began = time.perf_counter()
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return 1000 * (time.perf_counter() - began)


def generate(install: Path, count: int) -> None:
    """`count` ended runs in experiments of 200, of several sizes, dtypes, GPU types and scales."""
    source = random.Random(1)
    written = 0
    number = 0
    while written < count:
        spec = specification(source, number)
        number += 1
        experiment = install / "workloads" / spec.folder / "experiments" / spec.experiment
        for _ in range(min(PER_EXPERIMENT, count - written)):
            stamp = 1_700_000_000 + written
            write(experiment / f"{spec.experiment}_{stamp}" / spec.experiment, spec, stamp, source)
            written += 1


def specification(source: random.Random, number: int) -> RunSpec:
    """One experiment's specification."""
    return RunSpec(
        plugin="toy", workload="line", folder="fit_line", size=source.choice(["8b", "70b", "405b"]),
        dtype=source.choice(["bf16", "fp8"]), gpu_type=source.choice(["h100", "b200", "gb200"]),
        gpus=2 ** source.randint(3, 11), gpus_per_node=8, recipe="plain", driver="python",
        model=ModelShape(layers=32, hidden_size=4096, ffn_hidden_size=14336, heads=32, query_groups=8,
                         vocab_size=128256, sequence_length=8192),
        parallelism=Parallelism(dp=2), micro_batch_size=1, global_batch_size=64 + number, gradient_accumulation=4,
        steps=50, window="35-44", runtime="pyxis", launcher="slurm",
        peak=Peak(tflops=989.0, name="dense", source="made up"),
        origins=dict.fromkeys(RunSpec.__struct_fields__, "catalog"),
        tags=("nightly",) if source.random() < 0.3 else (),
    )  # fmt: skip


def write(folder: Path, spec: RunSpec, stamp: int, source: random.Random, sweep: SweepMark | None = None) -> None:
    """One run's record and result; a run of a sweep also has its steps."""
    folder.mkdir(parents=True)
    mean = 0.2 + 4 * source.random()
    steps = [Step(number=n, time_s=mean * (1 + 0.01 * source.random()), total=49, loss=2.0) for n in range(50)]
    record = Record(
        run_id=folder.parent.name, id=derived(folder.parent.name), user=current_user(), spec=spec,
        created=float(stamp), llmbx_version="0.1.0", command=("run", "line"),
        image=Image(kind="container", reference="toy:1", python="python", digest="sha256:" + "a" * 64),
        host={"hostname": "node1", "driver": "570.1", "cores": 64},
        environment={f"NCCL_SETTING_{n}": str(n) for n in range(40)}, versions={"torch": "2.8.0"},
        sweep=sweep,
    )  # fmt: skip
    good = source.random() < 0.97
    outcome: dict[str, Any] = {"status": "completed" if good else "failed", "data_valid": good}
    result = build_result(record, JobStatus(state="ended", exit_code=0), measured(spec, steps)).replace(**outcome)
    (folder / "run.json").write_bytes(pretty(record))
    (folder / "result.json").write_bytes(sealed(result))
    if sweep is not None:
        write_steps(folder, steps)


def measured(spec: RunSpec, steps: list[Step]) -> Any:
    """The figures; their warnings are left out, which takes most of the time of making them."""
    few = [step for step in steps if step.number % 7 == 0]
    return measure(spec, few, None, "last")


if __name__ == "__main__":
    sys.exit(main())
