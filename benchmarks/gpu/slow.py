"""Slow one training down on one GPU, fault by fault, and let `llmbx explain` say why.

    python3 benchmarks/gpu/slow.py --out OUT [--gpu-type h200] [--only NAME,NAME] [--until 300] [--rehearse]

Each fault is a real one: another program on the same GPU, other programs on the training's core, a rank that is stopped
again and again, activations that are computed twice. Nothing sets anything of the GPU. The share of a step that a
fault costs is known by a run without it; `slow.json` has it beside what was named. Three runs have no fault; two of
them verify their last step (`--verify-compute`), which must not find anything, and say what it took.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import do
import place
from cases import Case
from plan import Scale, training

STEPS = 40
FIRST = 10
"""The first step whose time is compared, counted from 0."""
LEAST_S = 60
"""Seconds that must be left for a run to be started."""
PRODUCTS = """
import torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
while True:
    for _ in range(20): a @ a
    torch.cuda.synchronize()
"""
BUSY = "while True: sum(range(1000))"
Disturbance = Callable[[int, threading.Event], None]


def foreign(pid: int, ended: threading.Event) -> None:
    """Another program computes on the GPU."""
    with program("-c", PRODUCTS):
        ended.wait()


def contention(pid: int, ended: threading.Event) -> None:
    """The training has one core, and three other programs want it, too."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {1})
    with contextlib.ExitStack() as programs:
        for _ in range(3):
            os.sched_setaffinity(programs.enter_context(program("-c", BUSY)).pid, {1})
        ended.wait()


def stopping(pid: int, ended: threading.Event) -> None:
    """The training is stopped for 0.4 of every 1.6 seconds."""
    with contextlib.suppress(ProcessLookupError):
        while not ended.wait(1.2):
            os.kill(pid, signal.SIGSTOP)
            ended.wait(0.4)
            os.kill(pid, signal.SIGCONT)


@dataclass(frozen=True)
class Trial:
    """A run: its name, the cause that is true (empty: none), options of `run`, and what is done to its rank."""

    name: str
    cause: str = ""
    options: tuple[str, ...] = ()
    disturb: Disturbance | None = None


TRIALS = (
    Trial("healthy"),
    Trial("foreign-gpu-process", "foreign-gpu-process", disturb=foreign),
    Trial("verified", options=("--verify-compute",)),
    Trial("cpu-contention", "cpu-contention", disturb=contention),
    Trial("recompute", "recompute", ("--set", "recompute_layers=LAYERS")),
    Trial("paused-process", "paused-process", disturb=stopping),
    Trial("verified-again", options=("--verify-compute",)),
)


@contextlib.contextmanager
def program(*argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program that is ended afterwards."""
    process = subprocess.Popen([sys.executable, *argv])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Disturbed(threading.Thread):
    """Waits until the rank of a run has begun to train, and disturbs it until `ended` is set."""

    def __init__(self, disturb: Disturbance, began: float) -> None:
        super().__init__(daemon=True)
        self.disturb, self.began, self.ended = disturb, began, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.2):
            pid = rank(self.began)
            if pid is not None:
                self.disturb(pid, self.ended)


def rank(began: float) -> int | None:
    """The process of the rank that trains in the newest run folder, once its step clock is written."""
    folder = do.newest(place.INSTALL, began)
    if folder is None or not (folder / "step_clocks" / "rank-0.bin").exists():
        return None
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not process.name.isdigit() or (process / "cwd").resolve() != folder.resolve():
                continue
            environ = (process / "environ").read_bytes().split(b"\0")
            if b"LLMBX_RANK=0" in environ and b"code/" in (process / "cmdline").read_bytes():
                return int(process.name)
    return None


def train(trial: Trial, scale: Scale, layers: int, out: Path, seconds: float) -> dict[str, Any]:
    """Run a trial; keep its record, its steps and its samples."""
    case = Case(trial.name, "nemo", "llama3.1", "8b-1gpu", sets=(f"layers={layers}", "gbs=2"))
    options = [option.replace("LAYERS", str(layers)) for option in trial.options]
    if scale.rehearse:
        options = [option for option in options if "recompute" not in option and option != "--set"]
    job = training(case, scale, *options, steps=30 if scale.rehearse else STEPS)
    began = time.time()
    disturbed = Disturbed(trial.disturb, began) if trial.disturb else None
    if disturbed:
        disturbed.start()
    record = do.execute(job, out, {}, seconds)
    if disturbed:
        disturbed.ended.set()
        disturbed.join()
    folder = do.newest(place.INSTALL, began)
    if folder is not None:
        record["verify"] = [json.loads(file.read_text()) for file in sorted(folder.glob("verify/rank-*.json"))]
        for source in [*folder.glob("telemetry/*"), *folder.glob("step_clocks/*")]:
            shutil.copyfile(source, out / f"{trial.name}.{source.name}")
    steps = record.get("step_seconds", [])[FIRST:]
    return {**record, "mean_step_s": statistics.fmean(steps) if steps else None, "cause": trial.cause}


def explain(run: str, out: Path, name: str, *against: str) -> dict[str, Any]:
    """What llmbx says of a run: the JSON; the text is kept."""
    environment = {**place.environment(None), "COLUMNS": "80"}
    for form, suffix in (("text", "txt"), ("json", "json")):
        argv = [*do.LLMBX, "explain", run, *against, "--format", form]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        (out / f"{name}.explain.{suffix}").write_text(done.stdout + done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return answer


def judged(record: dict[str, Any], usual: float | None, answer: dict[str, Any]) -> dict[str, Any]:
    """A record with what is true and what was said."""
    step = record["mean_step_s"]
    true = 1 - usual / step if step and usual else None
    causes = [
        {"id": cause["id"], "rank": cause.get("rank"), "share": cause.get("share"), "certainty": cause.get("certainty")}
        for cause in answer.get("causes") or []
    ]
    lost = answer.get("lost_s_per_step")
    return {**record, "true_share": true, "said_share": lost / step if lost and step else None, "causes": causes}


def main() -> int:
    """Run the trials until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gpu-type", default="h200")
    parser.add_argument("--layers", type=int, default=2, help="layers of Llama 3.1 8B [default: 2]")
    parser.add_argument("--only", default="", metavar="NAME,NAME", help="some of the runs; the first has no fault")
    parser.add_argument("--until", type=float, default=300.0, metavar="S")
    parser.add_argument("--rehearse", action="store_true", help="a mini on a CPU")
    options = parser.parse_args()
    end = time.monotonic() + options.until
    place.install()
    options.out.mkdir(parents=True, exist_ok=True)
    records: list[dict[str, Any]] = []
    healthy: dict[str, Any] | None = None
    only = options.only.split(",") if options.only else [trial.name for trial in TRIALS]
    for trial in TRIALS:
        if trial.name not in only and trial.name != "healthy":
            continue
        left = end - time.monotonic()
        if left < LEAST_S:
            break
        scale = Scale(options.rehearse, options.gpu_type)
        record = train(trial, scale, options.layers, options.out, left)
        healthy = healthy or record
        if record.get("run_id"):
            against = ("--against", healthy["run_id"]) if trial.name != "healthy" else ()
            answer = explain(record["run_id"], options.out, trial.name, *against)
            explain(record["run_id"], options.out, f"{trial.name}.alone")
            record = judged(record, healthy["mean_step_s"], answer)
        records.append(record)
        (options.out / "slow.json").write_text(json.dumps(records, indent=1) + "\n")
        print(line(record), flush=True)
    return 0


def line(record: dict[str, Any]) -> str:
    """A run in one line."""
    named = ", ".join(
        f"{c['id']} ({c['certainty']}, {'?' if c['share'] is None else format(c['share'], '.0%')})"
        for c in record.get("causes", [])[:3]
    )
    step, true = record.get("mean_step_s"), record.get("true_share")
    share = "" if true is None else f", true share {true:.1%}"
    time_s = "no step" if step is None else f"{step:.4f} s"
    return f"{record['name']:<22} exit code {record['exit_code']}, {time_s}{share}: {named or 'nothing named'}"


if __name__ == "__main__":
    sys.path.insert(0, place.site("llmbx"))
    sys.exit(main())
