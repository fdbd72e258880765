"""Where the time of profiled steps went: the longest operations and each step's GPU time, from torch's or JAX's trace.

Both write Chrome's trace format. On a GPU the kernels are counted (torch marks them, JAX has them on lanes of the
device); in a rehearsal on a CPU, where there are none, the operations of the host.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

SHOWN = 25
TRACES = ("torch_profile/*.json.gz", "maxtext/**/*.trace.json.gz")
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
"""What torch calls the events of a GPU."""

Event = dict[str, Any]


def analysis(folder: Path) -> tuple[str, list[dict[str, float]]] | None:
    """The longest operations in the folder's first trace, and its steps; None where there is no trace."""
    trace = next((file for pattern in TRACES for file in sorted(folder.glob(pattern))), None)
    if trace is None:
        return None
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    complete = [event for event in events if event.get("ph") == "X"]
    kind, counted = operations(complete, devices(events))
    text = "\n".join([f"{kind} in {trace.name}, by time on all lanes together", *table(counted)]) + "\n"
    return text, steps(complete, counted)


def steps(events: list[Event], counted: list[Event]) -> list[dict[str, float]]:
    """Of each step that torch's trace marks, in seconds: its length, its operations' sum, and when one of them ran."""
    notes = [event for event in events if event.get("cat") == "user_annotation"]
    marks = {event["name"]: event for event in notes if event["name"].startswith("ProfilerStep#")}
    found = []
    for mark in sorted(marks.values(), key=lambda event: event["ts"]):
        first, last = mark["ts"], mark["ts"] + mark["dur"]
        spans = sorted((e["ts"], e["ts"] + e.get("dur", 0)) for e in counted if first <= e["ts"] < last)
        summed = sum(end - start for start, end in spans)
        micros = {"step_s": mark["dur"], "operations_s": summed, "busy_s": union(spans)}
        found.append({name: value / 1e6 for name, value in micros.items()})
    return found


def union(spans: list[tuple[float, float]]) -> float:
    """The length of what the sorted `spans` cover together."""
    covered, reached = 0.0, float("-inf")
    for start, end in spans:
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def devices(events: list[Event]) -> set[tuple[Any, Any]]:
    """The lanes (process and thread) on which JAX's trace has a GPU's streams.

    Beside them it has lanes that name the same time again, by module, step and source. Where no lane is called a
    stream, all of the device are taken.
    """
    names = [event for event in events if event.get("ph") == "M"]
    gpus = {e["pid"] for e in names if e["name"] == "process_name" and "/device:GPU" in str(e["args"].get("name"))}
    lanes = [e for e in names if e["name"] == "thread_name" and e["pid"] in gpus]
    streams = [e for e in lanes if str(e["args"].get("name")).startswith("Stream")]
    return {(event["pid"], event["tid"]) for event in streams or lanes}


def operations(events: list[Event], lanes: set[tuple[Any, Any]]) -> tuple[str, list[Event]]:
    """The events of a GPU; without one, those of the host that are an operation of torch or of XLA."""
    found = [e for e in events if e.get("cat") in DEVICE or (e.get("pid"), e.get("tid")) in lanes]
    if found:
        return "GPU operations", found
    host = [e for e in events if e.get("cat") == "cpu_op" or "hlo_op" in (e.get("args") or {})]
    return "operations of the host (no GPU)", host


def table(events: list[Event]) -> list[str]:
    """Milliseconds, share and number of the longest by name; nested operations of a host count in each other."""
    times: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for event in events:
        times[event["name"]] += event.get("dur", 0)
        calls[event["name"]] += 1
    total = sum(times.values()) or 1
    rows = [(micros / 1e3, micros / total, calls[name], name) for name, micros in times.most_common(SHOWN)]
    return [
        f"{'ms':>10} {'share':>7} {'calls':>7}  name",
        *(f"{m:10.1f} {s:7.1%} {n:7}  {w[:90]}" for m, s, n, w in rows),
    ]
