"""The phases of PGLE that only the first rank runs.

`check` validates the cached profile of an earlier run and renames an invalid one, so that it is collected again.
`convert` converts the capture of the collect phase to a profile, validates and publishes it.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llmbx.entry import rank
from llmbx.entry.rank import say
from llmbx_maxtext.entry import profile_cache

STEP = re.compile(r"completed (?:profiler activation/deactivation )?step: (\d+), seconds: (\d+\.\d{3})")


def main(role: str) -> int:
    """Run the phase `role`. Returns the exit status."""
    spec, _ = rank.begin()
    phases: dict[str, Callable[[dict[str, Any]], int]] = {"check": check, "convert": convert}
    return phases[role](spec["pgle"])


def check(profile: dict[str, Any]) -> int:
    """Print the state of the cached profile, and rename it if it is invalid."""
    folder = Path(profile["folder"])
    if not folder.exists():
        say(f"no cached PGLE profile {profile['digest']}; collecting it")
        return 0
    fault = profile_cache.problem(profile)
    if fault is None:
        say(f"using cached PGLE profile {folder}; skipping phases collect and convert")
        if (seconds := profile_cache.step_time(folder)) is not None:
            say(f"its collect phase took {seconds:.4f} s a step")
    else:
        renamed = profile_cache.quarantine(folder).name
        say(f"invalid PGLE profile {folder}: {fault}; renamed to {renamed}, collecting it again")
    return 0


def convert(profile: dict[str, Any]) -> int:
    """Convert, validate and publish the profile. If it is invalid, print an error and return 1."""
    made = profile_cache.build_folder(profile)
    try:
        fault = CONVERTERS[profile["mode"]](profile, made / profile["content"])
        number = profile_cache.count(profile, made / profile["content"])
        if fault or not number:
            say(f"error: cannot create a PGLE profile: {fault or EMPTY[profile['mode']]}")
            return 1
        profile_cache.publish(profile, made, collect_time(profile, Path.cwd()))
    finally:
        shutil.rmtree(made, ignore_errors=True)
    what = "compiled programs" if profile["mode"] == "jax" else "operations with a cost"
    say(f"PGLE profile {profile['folder']}: {number} {what}")
    return 0


def collect_time(profile: dict[str, Any], folder: Path) -> float | None:
    """Return the median step time (in seconds) of the last collect phase in the run's log; None without timed steps."""
    logs = sorted(folder.glob("log-*.out"))
    text = logs[0].read_text(errors="replace", encoding="utf-8") if logs else ""
    first, last = profile["timed"]
    times: dict[int, float] = {}
    for number, seconds in STEP.findall(text.rpartition("llmbx: phase collect begins")[2]):
        if first <= int(number) < last:
            times.setdefault(int(number), float(seconds))
    return statistics.median(times.values()) if times else None


def nsys_converter(profile: dict[str, Any], target: Path) -> str | None:
    """Convert an nsys report to a table of costs with JAX's converter. Returns an error message or None."""
    converter = profile["converter"]
    if not Path(converter).is_file():
        return f"converter {converter} does not exist in this image"
    argv = [sys.executable, converter, "--profile_path", str(Path(profile["capture"]).resolve()), "--post_process"]
    status = subprocess.run([*argv, "--pgle_output_path", str(target)], check=False).returncode
    for leftover in target.parent.glob("*"):
        if leftover != target:
            leftover.unlink()
    return f"{converter} failed with exit code {status}" if status else None


def jax_programs(profile: dict[str, Any], target: Path) -> str | None:
    """Copy the programs that JAX compiled without and with costs. Returns an error message or None."""
    source = Path(profile["capture"])
    if not source.is_dir():
        return f"JAX wrote no compiled programs to {source}"
    shutil.copytree(source, target)
    return None


def cpu_standin_converter(profile: dict[str, Any], target: Path) -> str | None:
    """Convert JAX's trace of CPU operations to a table of costs. Returns an error message or None.

    It replaces the nsys converter without a GPU and has the same output format. The cost of an operation is its longest
    time; XLA on a CPU does not use it.
    """
    traces = sorted(Path(profile["capture"]).glob("*/*.trace.json.gz"))
    if not traces:
        return f"there is no trace in {profile['capture']}"
    costs: dict[str, float] = {}
    try:
        events = json.loads(gzip.decompress(traces[-1].read_bytes()))["traceEvents"]
        for event in events:
            name = (event.get("args") or {}).get("hlo_op")
            if name:
                costs[name] = max(costs.get(name, 0.0), float(event["dur"]))
    except (OSError, EOFError, ValueError, KeyError) as error:
        return f"cannot read {traces[-1]}: {error}"
    lines = [f'costs {{ name: "{name}" cost_us: {cost} }}\n' for name, cost in costs.items()]
    target.write_text("".join(lines), encoding="utf-8")
    return None


CONVERTERS = {"nsys": nsys_converter, "jax": jax_programs, "cpu-standin": cpu_standin_converter}

EMPTY = {
    "nsys": "the report contains no XLA operations (it must be taken on a GPU, with NVTX)",
    "jax": "JAX compiled no program with collected costs (it needs a GPU, and no other active profiler)",
    "cpu-standin": "the trace contains no XLA operations",
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
