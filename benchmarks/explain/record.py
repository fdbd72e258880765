"""Train with and without each fault of a list, and keep the folders of the runs.

    python benchmarks/explain/record.py LIST.toml FOLDER [--only NAME,NAME] [--python PYTHON] [--healthy N]

FOLDER/install has the runs, FOLDER/LIST.json which run belongs to which fault (`run`, its paired `healthy` run, and of
a pair the run with its `first` fault only), and what they lost by the clock of rank 0: seconds and share of a step.
PYTHON has torch (default: an environment in FOLDER/install, built if needed). With `--healthy`, N healthy runs, and as
many beside other work. What is there already is kept, so that it can be ended and started again. Needs root, cgroups
of version 1 and iproute2.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import conditions
from conditions import NotRun

from llmbx.catalog.environments import load_environment
from llmbx.model import ImageRequest
from llmbx_environments.venv.runtime import VenvRuntime
from llmbx_telemetry.steps import read_steps

HERE = Path(__file__).parent
FIRST = 10
"""The first step of the window, counted from 0."""
Fault = dict[str, Any]
Truth = dict[str, Any]


class Recorder:
    """Runs trainings in one install."""

    def __init__(self, folder: Path, name: str, python: str) -> None:
        self.folder, self.install = folder, folder / "install"
        self.python, self.file = python, folder / "faults.now"
        self.truth_file = folder / f"{name}.json"
        self.install.mkdir(parents=True, exist_ok=True)
        self.truth: Truth = json.loads(self.truth_file.read_text()) if self.truth_file.exists() else {}
        self.healthy: dict[str, str] = self.truth.get("healthy", {})

    def record(self, fault: Fault) -> None:
        """Record a fault and the runs that it is compared with."""
        entry = {"run": self.train(fault), "healthy": self.without(fault), "causes": fault["causes"]}
        entry["against"] = fault.get("against", False)
        slow, usual = self.step_s(entry["run"]), self.step_s(entry["healthy"])
        entry |= {"step_s": slow, "healthy_step_s": usual}
        if "parts" in fault:
            conditions_of_both = {key: fault[key] for key in ("condition", "usual") if key in fault}
            entry["first"] = self.train({**fault["parts"][0], **conditions_of_both, "framework": fault["framework"]})
            first = self.step_s(entry["first"])
            costs = [first - usual, slow - first]
        else:
            costs = [slow - usual]
        entry["shares"] = [round(cost / slow, 4) for cost in costs]
        self.truth.setdefault("faults", {})[fault["name"]] = entry
        self.truth.get("not_run", {}).pop(fault["name"], None)
        self.keep()
        print(f"{fault['name']:34} {usual:.4f} -> {slow:.4f} s, shares {entry['shares']}", flush=True)

    def record_healthy(self, beside: bool) -> None:
        """Record a short run without a fault, beside other work on both cores or alone."""
        hog = {"do": "hog", "rank": None, "processes": 1, "busy": 0.9}
        run = self.train({"framework": "mini", "outside": [hog] if beside else []}, SHORT)
        self.truth.setdefault("healthy_runs", []).append({"run": run, "beside": beside})
        self.keep()
        print(f"healthy{' beside other work' * beside}: {self.step_s(run):.4f} s", flush=True)

    def refuse(self, fault: Fault, reason: str) -> None:
        """Keep why a fault could not be recorded."""
        self.truth.setdefault("not_run", {})[fault["name"]] = reason.splitlines()[-1]
        self.keep()

    def keep(self) -> None:
        """Write what is known."""
        self.truth_file.write_text(json.dumps({**self.truth, "healthy": self.healthy}, indent=1) + "\n")

    def without(self, fault: Fault) -> str:
        """Return the healthy run of the same configuration; trained once."""
        outside = [
            {**action, **UNHARMED[action["do"]]} for action in fault.get("outside", []) if action["do"] in UNHARMED
        ]
        if any(action["do"] == "rate" and action["interface"] == "slow" for action in fault.get("outside", [])):
            outside = fault["outside"]
        usual = {key: fault[key] for key in ("framework", "condition", "usual") if key in fault}
        usual["outside"] = outside
        key = json.dumps(usual, sort_keys=True)
        if key not in self.healthy:
            self.healthy[key] = self.train(usual)
        return self.healthy[key]

    def train(self, fault: Fault, options: tuple[str, ...] = ()) -> str:
        """Train once; return the id of the run."""
        actions = [dict(action) for action in fault.get("outside", [])]
        inside, condition = dict(fault.get("inside", {})), fault.get("condition", {})
        content: dict[str, Any] = {"pin": fault["framework"] == "mini", "inside": inside}
        with contextlib.ExitStack() as stack:
            if condition.get("network"):
                interface = inside.pop("interface", "fast")
                content["network"] = stack.enter_context(conditions.network(actions, interface))
            if any(action.get("swap") for action in actions):
                stack.enter_context(conditions.swap())
            if memory := condition.get("memory"):
                content["memory"] = {**memory, "file": self.mapped(memory.get("file_mb"), fault)}
            if disk := condition.get("disk"):
                content["disk"] = {**disk, "file": str(self.big("disk.bin", 256))}
                for action in actions:
                    action["file"] = content["disk"]["file"]
            self.file.write_text(json.dumps(content))
            return self.started(fault, actions, options)

    def mapped(self, size_mb: int | None, fault: Fault) -> str | None:
        """Return the file of a table; without a fault it is in the page cache, else it is not."""
        if size_mb is None:
            return None
        path = self.big("table.bin", size_mb)
        with path.open("rb") as file:
            if fault.get("outside"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            else:
                while file.read(1 << 20):
                    pass
        return str(path)

    def big(self, name: str, size_mb: int) -> Path:
        """Return a file of random bytes."""
        path = self.folder / name
        if not path.exists():
            path.write_bytes(os.urandom(size_mb << 20))
            os.sync()
        return path

    def started(self, fault: Fault, actions: list[conditions.Action], options: tuple[str, ...]) -> str:
        """Start the command of a user, and inject."""
        bridge = fault["framework"] == "bridge"
        injection = conditions.Injection(self.file, 2, actions, pin=bridge)
        whole = [action for action in actions if action["do"] == "quota" and action.get("rank") is None]
        join = f"echo $$ > {injection.group('cpu')}/cgroup.procs && " if whole else ""
        settings = {**fault.get("usual", {}), **fault.get("settings", {})}
        options = (*(BRIDGE if bridge else MINI), *options)
        for name, value in settings.items():
            options = (*options, "--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}")
        argv = [str(Path(sys.executable).with_name("llmbx")), "run", *options, "--gpus", "2", "--format", "json"]
        environ = {**os.environ, "LLMB_INSTALL": str(self.install), "LLMBX_CONFIG": os.devnull}
        environ |= {"FAULTS_FILE": str(self.file), "LLMBX_PLUGINS": str(HERE / "mini")}
        environ |= {} if bridge else {"LLMBX_PYTHON": self.python}
        injection.start()
        try:
            done = subprocess.run(
                ["sh", "-c", f'{join}exec "$@"', "sh", *argv], env=environ, capture_output=True, text=True, check=False
            )
        finally:
            injection.close()
        if done.returncode not in (0, 3, 5):
            raise NotRun((done.stderr.strip() or done.stdout)[-300:])
        run = str(json.loads(done.stdout)["run_id"])
        for large in self.folder_of(run).glob("checkpoint*.pt"):
            large.unlink()
        return run

    def folder_of(self, run: str) -> Path:
        """Return the folder of a run."""
        for result in self.install.glob("workloads/*/experiments/*/*/*/result.json"):
            if json.loads(result.read_text())["run_id"] == run:
                return result.parent
        raise SystemExit(f"{run} has no folder")

    def step_s(self, run: str) -> float:
        """Return the time from one step to the next, with what is between them, by rank 0."""
        first = read_steps(self.folder_of(run))[0]
        times, end = first.start[first.step >= FIRST], first.end[-1]
        return float(end - times[0]) / len(times)


def python_with_torch(install: Path) -> str:
    """Return the Python of the example's environment."""
    lock = HERE.parents[1] / "examples/torch_lm/src/llmbx_torch_lm/environments/torch_lm.toml"
    return str(VenvRuntime().prepare(ImageRequest(environment=load_environment(lock)), install, print).python)


UNHARMED: dict[str, dict[str, Any]] = {"relay": {"delay_ms": 0, "lost": 0}}
"""What a healthy run has of an action, with the values that do no harm."""
SHORT = ("--steps", "60", "--window", "11-60")
MINI = ("fault_mini", "--runtime", "host", "--launcher", "local")
BRIDGE = ("llama3.1", "--size", "mini", "--launcher", "local", "--steps", "40")


def main() -> None:
    """Record a list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--python")
    parser.add_argument("--for-s", type=float, default=1e9, help="Begin no further fault after this time.")
    parser.add_argument("--healthy", type=int, default=0, help="Healthy runs, and as many beside other work.")
    options = parser.parse_args()
    faults = tomllib.loads(options.list.read_text())["faults"]
    install = options.folder.absolute() / "install"
    recorder = Recorder(install.parent, options.list.stem, options.python or python_with_torch(install))
    names = options.only.split(",") if options.only else [fault["name"] for fault in faults]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with conditions.preferred():
        record_all(recorder, [fault for fault in faults if fault["name"] in names], options)


def record_all(recorder: Recorder, faults: list[Fault], options: argparse.Namespace) -> None:
    """Record what is not there yet, as long as there is time."""
    began = time.monotonic()
    for fault in faults:
        over = time.monotonic() - began > options.for_s
        if not over and fault["name"] not in recorder.truth.get("faults", {}):
            try:
                recorder.record(fault)
            except NotRun as error:
                print(f"{fault['name']}: not run: {error}", flush=True)
                recorder.refuse(fault, str(error))
    healthy = [run["beside"] for run in recorder.truth.get("healthy_runs", [])]
    for beside in (False, True):
        for _ in range(options.healthy - healthy.count(beside)):
            if time.monotonic() - began <= options.for_s:
                recorder.record_healthy(beside)


if __name__ == "__main__":
    main()
