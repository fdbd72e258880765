"""How explain scales, and how often it names simulated slow ranks: synthetic runs, whose nodes say so in their names.

    python benchmarks/explain_scale.py [--ranks 512] [--steps 1000] [--runs 20]

One run of many ranks, eight on each node, with samples once a second, is written, and explained by another process: its
time, without the start of Python, and its largest memory. Then runs with one to three ranks that work 5 or 20 % longer
are drawn in memory: precision and recall of the ranks that are named as slow.
"""

from __future__ import annotations

import argparse
import json
import resource
import struct
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from llmbx_explain.slow.clocks import Clocks, align
from llmbx_explain.slow.counters import Counters
from llmbx_explain.slow.evidence import Evidence, load_folder
from llmbx_explain.slow.explain import explained
from llmbx_telemetry.entry.step_clock import COLUMNS, MAGIC
from llmbx_telemetry.steps import RankSteps

PER_NODE = 8
STEP_S = 1.0
JITTER = 0.02
"""Standard deviation of a rank's work from step to step."""
RECORD = np.dtype([("step", "<u4"), ("start", "<i8"), *((name, "<u4") for name in COLUMNS)])
COLUMNS_OF_A_RANK = ("state", "cpu_time", "ran", "run_delay", "switches", "preempted", "major_faults", "io.read_bytes")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=512)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        print(json.dumps(explain(options.folder)))
        return
    report = {"ranks": options.ranks, "steps": options.steps, **at_scale(options.ranks, options.steps)}
    for percent in (5, 20):
        report[f"slow_{percent}_percent"] = named(options.ranks, options.steps, percent / 100, options.runs)
    print(json.dumps(report, indent=1))


def at_scale(ranks: int, steps: int) -> dict[str, object]:
    """Explain one run in another process."""
    import subprocess

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, ranks, steps)
        megabytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
        argv = [sys.executable, __file__, "--folder", name]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return {"megabytes_of_files": round(megabytes), **json.loads(done.stdout)}


def explain(folder: Path) -> dict[str, object]:
    """Explain a run, and say what that took."""
    began, used = time.perf_counter(), time.process_time()
    slow = explained(load_folder(folder, "synthetic"), None, "itself", None)
    seconds, used = time.perf_counter() - began, time.process_time() - used
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    first = slow.causes[0] if slow.causes else None
    cause = None if first is None else f"{first.id}, rank {first.rank} ({first.certainty})"
    return {
        "seconds": round(seconds, 2),
        "of_a_processor": round(used, 2),
        "memory_mib": round(memory),
        "first_cause": cause,
    }


def durations(ranks: int, steps: int, slow: dict[int, float], seed: int) -> dict[str, np.ndarray]:
    """Draw the columns of all ranks in seconds; `slow` has by how much some ranks work longer."""
    chance = np.random.default_rng(seed)
    work = 0.9 * STEP_S * (1 + JITTER * chance.standard_normal((ranks, steps)))
    for rank, more in slow.items():
        work[rank] *= 1 + more
    period = work.max(axis=0) + 0.1 * STEP_S
    wait = period - work
    zeros = np.zeros_like(work)
    return {"data": zeros, "compute": work, "before": work, "wait": wait, "communication": wait,
            "optimizer": zeros, "total": np.broadcast_to(period, work.shape)}  # fmt: skip


def write(folder: Path, ranks: int, steps: int) -> None:
    """Write the step clocks and samples of a run in which one rank works 20 % longer."""
    columns = durations(ranks, steps, {ranks // 3: 0.2}, seed=1)
    starts = np.concatenate(([0.0], np.cumsum(columns["total"][0])))[:-1]
    (folder / "step_clocks").mkdir()
    (folder / "telemetry").mkdir()
    for rank in range(ranks):
        node = rank // PER_NODE
        head = {"rank": rank, "node": f"synthetic-{node}", "boot_id": f"synthetic-{node}", "device": "cpu",
                "columns": COLUMNS, "monotonic_ns": 0, "wall_ns": 10**18}  # fmt: skip
        text = json.dumps(head).encode()
        rows = np.zeros(steps, RECORD)
        rows["step"], rows["start"] = np.arange(steps), (starts * 1e9).astype(np.int64)
        for name, values in columns.items():
            rows[name] = (values[rank] * 1e6).astype(np.uint32)
        content = MAGIC + struct.pack("<I", len(text)) + text + rows.tobytes()
        (folder / "step_clocks" / f"rank-{rank}.bin").write_bytes(content)
    for node in range(ranks // PER_NODE):
        write_samples(folder / "telemetry" / f"node-{node}.tsv", node, columns["compute"], starts)


def write_samples(path: Path, node: int, work: np.ndarray, starts: np.ndarray) -> None:
    """Write what a node's sampler would: each rank runs as long as it works."""
    own = range(node * PER_NODE, (node + 1) * PER_NODE)
    head = {"node": f"synthetic-{node}", "number": node, "boot_id": f"synthetic-{node}", "wall": 1e9, "monotonic": 0}
    lines = [f"llmbx-telemetry\t1\t{json.dumps(head)}"]
    names = [f"rank{rank}.{column}" for rank in own for column in COLUMNS_OF_A_RANK]
    lines += [f"c\t{number}\t{name}\tus" for number, name in enumerate(names)]
    ran = np.diff(np.interp(np.arange(int(starts[-1]) + 2), starts, np.arange(len(starts))), prepend=0)
    for second, share in enumerate(ran):
        step = min(second, work.shape[1] - 1)
        fields = []
        for place, rank in enumerate(own):
            micros = int(work[rank, step] * share * 1e6)
            values = (82 if second == 0 else 0, micros, micros, 500, 20, 3, 0, 0)
            base = place * len(COLUMNS_OF_A_RANK)
            fields += [f"{base + number}:{value}" for number, value in enumerate(values) if value]
        lines.append("\t".join(("r", "1000000" if second else "0", *fields)))
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def named(ranks: int, steps: int, more: float, runs: int) -> dict[str, float]:
    """Return precision and recall of the slow ranks of some runs."""
    right = wrong = missed = 0
    for seed in range(runs):
        chance = np.random.default_rng(1000 + seed)
        slow = sorted(int(rank) for rank in chance.choice(ranks, size=1 + seed % 3, replace=False))
        clocks = in_memory(durations(ranks, steps, dict.fromkeys(slow, more), seed))
        counters = Counters(clocks=clocks, segments=(None,) * ranks, gpus=(None,) * ranks)
        result = explained(Evidence(name="synthetic", clocks=clocks, counters=counters), None, "itself", None)
        ranks_named = {cause.rank for cause in result.causes if cause.id == "slow-rank"}
        right += len(ranks_named & set(slow))
        wrong += len(ranks_named - set(slow))
        missed += len(set(slow) - ranks_named)
    return {"precision": right / max(1, right + wrong), "recall": right / max(1, right + missed)}


def in_memory(columns: dict[str, np.ndarray]) -> Clocks:
    """Return the step clocks of a run that was not written."""
    steps = columns["total"].shape[1]
    start = np.concatenate(([0.0], np.cumsum(columns["total"][0])))[:-1]
    ranks = [
        RankSteps(rank=rank, node=f"synthetic-{rank // PER_NODE}", boot_id="synthetic", device="cpu", gpu_uuid=None,
                  wall=0.0, step=np.arange(steps), start=start,
                  columns={name: values[rank] for name, values in columns.items()})
        for rank in range(len(columns["total"]))
    ]  # fmt: skip
    clocks = align(ranks, 1, steps)
    assert clocks is not None
    return clocks


if __name__ == "__main__":
    main()
