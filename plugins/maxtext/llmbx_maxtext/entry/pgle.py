"""The phases of PGLE that the first rank does alone.

`check` looks at the profile that an earlier run left and puts a damaged one aside, so that it is collected anew.
`convert` makes the profile of this run from what its collect phase captured, and keeps it when it is good.
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
from llmbx_maxtext.entry import kept

STEP = re.compile(r"completed (?:profiler activation/deactivation )?step: (\d+), seconds: (\d+\.\d{3})")


def main(role: str) -> int:
    """Do the phase `role`; the exit status."""
    spec, _ = rank.begin()
    phases: dict[str, Callable[[dict[str, Any]], int]] = {"check": check, "convert": convert}
    return phases[role](spec["pgle"])


def check(profile: dict[str, Any]) -> int:
    """Say how the kept profile stands; put it aside when it cannot be used."""
    folder = Path(profile["folder"])
    if not folder.exists():
        say(f"no PGLE profile {profile['digest']} yet: it will be collected")
        return 0
    fault = kept.problem(profile)
    if fault is None:
        say(f"the PGLE profile {folder} is valid: the phases collect and convert are skipped")
        if (seconds := kept.step_time(folder)) is not None:
            say(f"its collect phase took {seconds:.3f} s a step")
    else:
        aside = kept.put_aside(folder).name
        say(f"the PGLE profile {folder} cannot be used: {fault}; put aside as {aside}, it will be collected anew")
    return 0


def convert(profile: dict[str, Any]) -> int:
    """Make, check and keep the profile. Raises nothing: a fault is one line and exit status 1."""
    made = kept.workshop(profile)
    try:
        fault = CONVERTERS[profile["road"]](profile, made / profile["content"])
        number = kept.count(profile, made / profile["content"])
        if fault or not number:
            say(f"error: no PGLE profile: {fault or NOTHING[profile['road']]}")
            return 1
        kept.publish(profile, made, collect_time(profile, Path.cwd()))
    finally:
        shutil.rmtree(made, ignore_errors=True)
    what = "compiled programs" if profile["road"] == "jax" else "operations with a cost"
    say(f"PGLE profile {profile['folder']}: {number} {what}")
    return 0


def collect_time(profile: dict[str, Any], folder: Path) -> float | None:
    """Seconds a step in the collect phase that the run's log has last: the median of the timed steps; None without."""
    logs = sorted(folder.glob("log-*.out"))
    text = logs[0].read_text(errors="replace", encoding="utf-8") if logs else ""
    first, last = profile["timed"]
    times: dict[int, float] = {}
    for number, seconds in STEP.findall(text.rpartition("llmbx: phase collect begins")[2]):
        if first <= int(number) < last:
            times.setdefault(int(number), float(seconds))
    return statistics.median(times.values()) if times else None


def nsys_converter(profile: dict[str, Any], target: Path) -> str | None:
    """The table of costs from an nsys report, by the converter that comes with JAX; what went wrong, or None."""
    converter = profile["converter"]
    if not Path(converter).is_file():
        return f"this image has no converter {converter}"
    argv = [sys.executable, converter, "--profile_path", str(Path(profile["capture"]).resolve()), "--post_process"]
    status = subprocess.run([*argv, "--pgle_output_path", str(target)], check=False).returncode
    for left in target.parent.glob("*"):
        if left != target:
            left.unlink()
    return f"{converter} ended with exit code {status}" if status else None


def jax_programs(profile: dict[str, Any], target: Path) -> str | None:
    """The programs that JAX compiled, first without and then with their costs."""
    source = Path(profile["capture"])
    if not source.is_dir():
        return f"JAX left no compiled programs in {source}"
    shutil.copytree(source, target)
    return None


def cpu_standin_converter(profile: dict[str, Any], target: Path) -> str | None:
    """Stands in for the nsys converter where there is no GPU: costs from JAX's own trace of the CPU's operations.

    The format is the converter's, the longest time of each operation is its cost; XLA on CPU makes no use of it.
    """
    traces = sorted(Path(profile["capture"]).glob("*/*.trace.json.gz"))
    if not traces:
        return f"no trace in {profile['capture']}"
    costs: dict[str, float] = {}
    try:
        events = json.loads(gzip.decompress(traces[-1].read_bytes()))["traceEvents"]
        for event in events:
            name = (event.get("args") or {}).get("hlo_op")
            if name:
                costs[name] = max(costs.get(name, 0.0), float(event["dur"]))
    except (OSError, EOFError, ValueError, KeyError) as error:
        return f"{traces[-1]} cannot be read: {error}"
    lines = [f'costs {{ name: "{name}" cost_us: {cost} }}\n' for name, cost in costs.items()]
    target.write_text("".join(lines), encoding="utf-8")
    return None


CONVERTERS = {"nsys": nsys_converter, "jax": jax_programs, "cpu-standin": cpu_standin_converter}

NOTHING = {
    "nsys": "the report holds no operation of XLA (was it taken with NVTX, on a GPU?)",
    "jax": "JAX compiled no program with collected costs (it needs a GPU, and no other profiler beside it)",
    "cpu-standin": "the trace holds no operation of XLA",
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
