"""Compare the sampler's columns with nvidia-smi's beside a loop of matrix products; print JSON.

    python3 benchmarks/gpu/telemetry.py [--seconds 40] [--size 8192] [--keep FOLDER]

It needs torch for CUDA and this repository, not llmbx. Nothing sets anything of the GPU. In blocks of a second the
sampler is stopped and continued in turn, so that its effect on the products' rate is measured in one run.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SAMPLER = Path(__file__).parents[2] / "plugins" / "telemetry" / "llmbx_telemetry" / "node" / "sampler.py"
QUERY = {
    "timestamp": "",
    "power.draw.instant": "power",
    "clocks.sm": "clock.sm",
    "clocks.mem": "clock.memory",
    "temperature.gpu": "temperature",
    "utilization.gpu": "busy",
    "memory.used": "memory_used",
    "clocks_event_reasons.active": "throttle",
}
"""Fields of nvidia-smi, and the sampler's column of each."""
SCALE = {"power": 1e-3, "memory_used": 1 / 1024}
"""The sampler's units in those of nvidia-smi: W and MiB."""


def main() -> int:
    """Run the loop, the sampler and nvidia-smi beside each other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "LLMBX_RANK": "0", "LLMBX_MASTER_ADDR": "here", "LLMBX_MASTER_PORT": "1"}
    os.environ.update(env)
    samples = folder / "node-0.tsv"
    samples.unlink(missing_ok=True)
    before = nvml_energy()
    argv = [sys.executable, "-I", "-S", str(SAMPLER), str(os.getpid()), str(samples)]
    sampler = subprocess.Popen(argv, env=env, stderr=(folder / "sampler.err").open("w"))
    query = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits", "--id=0"]
    with (folder / "nvidia-smi.csv").open("w") as out:
        watch = subprocess.Popen([*query, "--loop-ms=1000"], stdout=out, stderr=subprocess.STDOUT)
        time.sleep(1)
        started_s, began = cpu_seconds(sampler.pid), time.monotonic()
        work = products(options.seconds / 2, options.size)
        cost_s = cpu_seconds(sampler.pid) - started_s
        lasted_s = time.monotonic() - began
        watch.terminate()
        watch.wait()
    blocks = in_turn(sampler.pid, options.seconds / 2, options.size)
    sampler.terminate()
    sampler.wait()
    after = nvml_energy()
    table = read(samples)
    report = {
        "gpu": table["facts"].get("gpu0"),
        "sampler": {
            "rows": len(table["time"]),
            "start_cpu_s": started_s,
            "cpu_s": round(cost_s, 3),
            "percent_of_a_core": round(100 * cost_s / lasted_s, 3),
            "exit_code": sampler.returncode,
            "errors": (folder / "sampler.err").read_text()[-500:],
        },
        "not_collected": table["missing"],
        "events": table["events"],
        "beside_nvidia_smi": compare(table, folder / "nvidia-smi.csv"),
        "energy": energy(table, before, after),
        "on_and_off": blocks,
        "products_tflops": round(work["tflops"], 1),
        "step_clock": step_clock(folder, options.size),
        "calls_us": call_times(),
    }
    print(json.dumps(report, indent=1))
    return 0


def products(seconds: float, size: int) -> dict[str, float]:
    """Multiply matrices in BF16 for some seconds; return TFLOP/s."""
    import torch

    left = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    began, count = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        for _ in range(20):
            out = left @ right
        torch.cuda.synchronize()
        count += 20
    took = time.monotonic() - began
    del out
    return {"tflops": 2.0 * size**3 * count / took / 1e12}


def in_turn(pid: int, seconds: float, size: int) -> dict[str, Any]:
    """Stop and continue the sampler in turn; return the difference of the rate with its 95 % interval.

    Each pair has one block of each in a random order.
    """
    products(0.5, size)
    differences, chance = [], random.Random(1)
    for _ in range(max(3, int(seconds / 2))):
        rates = {}
        for running in chance.sample([True, False], 2):
            os.kill(pid, signal.SIGCONT if running else signal.SIGSTOP)
            rates[running] = products(1.0, size)["tflops"]
        os.kill(pid, signal.SIGCONT)
        differences.append(100 * (rates[False] / rates[True] - 1))
    spread = statistics.stdev(differences) / math.sqrt(len(differences))
    half = 2.1 * spread  # Student's t for about 20 pairs
    mean = statistics.mean(differences)
    return {"pairs": len(differences), "slower_percent": round(mean, 3), "from": round(mean - half, 3),
            "to": round(mean + half, 3)}  # fmt: skip


def cpu_seconds(pid: int) -> float:
    """Processor time of a process of one thread so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def read(path: Path) -> dict[str, Any]:
    """Read the sampler's file (docs/telemetry.md), which has one segment here."""
    table: dict[str, Any] = {"time": [], "columns": {}, "facts": {}, "missing": {}, "events": []}
    names: list[str] = []
    values: list[float] = []
    for line in path.read_text().splitlines():
        kind, *words = line.split("\t")
        if kind == "llmbx-telemetry":
            now = json.loads(words[1])["wall"]
        elif kind == "c":
            names.append(words[1])
            values.append(0)
            table["columns"][words[1]] = [math.nan] * len(table["time"])
        elif kind == "m":
            table["missing"][words[0]] = words[1]
        elif kind == "f":
            table["facts"][words[1]] = json.loads(words[2])
        elif kind == "e":
            table["events"].append(words[2])
        elif kind == "r":
            now += int(words[0]) / 1e6
            table["time"].append(now)
            for change in words[1:]:
                number, amount = change.split(":")
                last = 0 if math.isnan(values[int(number)]) else values[int(number)]
                values[int(number)] = math.nan if amount == "x" else last + int(amount)
            for name, value in zip(names, values, strict=True):
                table["columns"][name].append(value)
    return table


def compare(table: dict[str, Any], path: Path) -> dict[str, Any]:
    """Compare each row of nvidia-smi with the sampler's row next to it in time, at most a second away."""
    differences: dict[str, list[float]] = {}
    means: dict[str, list[list[float]]] = {}
    reasons = [0, 0]
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(QUERY):
            continue
        at = time.mktime(time.strptime(cells[0].split(".")[0], "%Y/%m/%d %H:%M:%S")) + float(
            "0." + cells[0].split(".")[1]
        )
        row = min(range(len(table["time"])), key=lambda n: abs(table["time"][n] - at))
        if abs(table["time"][row] - at) > 1:
            continue
        for cell, column in zip(cells[1:], list(QUERY.values())[1:], strict=True):
            sampled = table["columns"].get(f"gpu0.{column}", [math.nan] * len(table["time"]))[row]
            try:
                theirs = float(int(cell, 16) if cell.startswith("0x") else float(cell))
            except ValueError:
                continue
            if column == "throttle":
                reasons = [reasons[0] + 1, reasons[1] + (int(sampled) == int(theirs))]
                continue
            sampled *= SCALE.get(column, 1)
            differences.setdefault(column, []).append(sampled - theirs)
            means.setdefault(column, []).append([sampled, theirs])
    return {
        **{
            column: {
                "rows": len(values),
                "mean_of_sampler": round(statistics.mean(pair[0] for pair in means[column]), 3),
                "mean_of_nvidia_smi": round(statistics.mean(pair[1] for pair in means[column]), 3),
                "median_difference": round(statistics.median(values), 3),
                "largest": round(max(values, key=abs), 3),
            }
            for column, values in differences.items()
        },
        "throttle": {"rows": reasons[0], "same_reasons": reasons[1]},
    }


def energy(table: dict[str, Any], before: float | None, after: float | None) -> dict[str, Any]:
    """Compare the energy counter's increase with the integral of the power, and with NVML's own reading."""
    counter, power = table["columns"].get("gpu0.energy"), table["columns"].get("gpu0.power")
    if not counter or not power:
        return {"counter": None}
    rows = [n for n in range(len(counter)) if not (math.isnan(counter[n]) or math.isnan(power[n]))]
    integral = sum(
        (table["time"][b] - table["time"][a]) * (power[a] + power[b]) / 2000 for a, b in itertools.pairwise(rows)
    )
    joules = (counter[rows[-1]] - counter[rows[0]]) / 1000
    whole = None if before is None or after is None else after - before
    return {"counter_j": joules, "integral_of_power_j": round(integral, 1), "nvml_from_start_to_end_j": whole}


def nvml_energy() -> float | None:
    """The first GPU's energy counter in J, read by this process; None if it has none."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    handle, value = ctypes.c_void_p(), ctypes.c_ulonglong()
    library.nvmlInit_v2()
    library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
    return None if library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(value)) else value.value / 1000


def step_clock(folder: Path, size: int, steps: int = 30) -> dict[str, Any]:
    """Measure steps of products, a kernel that waits, and an optimizer with the clock of a rank, and without it.

    Each part is as long as another event pair says; the parts of the clock are medians in ms.
    """
    import torch

    sys.path.insert(0, str(Path(__file__).parents[2] / "core"))
    import llmbx.entry

    llmbx.entry.__path__.append(str(SAMPLER.parents[1] / "entry"))  # as in a run folder, where they lie together
    from llmbx.entry import step_clock as clocks

    clock = clocks.of_torch(folder)
    weight = torch.nn.Parameter(torch.randn(size, size, device="cuda", dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([weight], lr=1e-4)
    left = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)

    def event() -> Any:
        made = torch.cuda.Event(enable_timing=True)
        made.record()
        return made

    def step() -> list[Any]:
        times = [event()]
        for _ in range(10):
            out = left @ weight
        times.append(event())
        with clock.meeting():
            torch.cuda._sleep(20_000_000)
        times.append(event())
        weight.grad = out.detach()
        optimizer.step()
        times.append(event())
        return times

    measured, host = [], []
    for number in range(steps):
        began = time.perf_counter()
        with clock.step(number):
            measured.append(step())
        host.append(time.perf_counter() - began)
    torch.cuda.synchronize()
    clock.close()
    content = (folder / clocks.FOLDER / "rank-0.bin").read_bytes()
    head = int.from_bytes(content[8:12], "little") + 12
    rows = list(clocks.RECORD.iter_unpack(content[head:]))
    names = ("compute", "wait", "optimizer")
    parts = {name: statistics.median(row[2 + clocks.COLUMNS.index(name)] for row in rows[5:]) / 1000 for name in names}
    parts["total"] = statistics.median(row[2 + clocks.COLUMNS.index("total")] for row in rows[5:]) / 1000
    events = {
        name: round(statistics.median(times[n].elapsed_time(times[n + 1]) for times in measured[5:]), 3)
        for n, name in enumerate(names)
    }
    return {
        "head": json.loads(content[12:head]),
        "steps_written": len(rows),
        "clock_ms": parts,
        "events_ms": events,
        "host_ms_per_step": round(1000 * statistics.median(host), 3),
    }


def call_times() -> dict[str, Any]:
    """Microseconds of each call and field of NVML that the sampler uses, wall and processor time, or its error."""
    sys.path.insert(0, str(SAMPLER.parent))
    import sampler

    table = sampler.Table(os.devnull, {})
    nvml = sampler.Nvml(table, {})
    if not nvml.gpus:
        return {"error": table.named}
    gpu, times = nvml.gpus[0], {}
    kinds = {
        "nvmlDeviceGetClockInfo": (ctypes.c_uint, 1),
        "nvmlDeviceGetTemperature": (ctypes.c_uint, 0),
        "nvmlDeviceGetCurrentClocksThrottleReasons": (ctypes.c_ulonglong,),
        "nvmlDeviceGetTotalEnergyConsumption": (ctypes.c_ulonglong,),
        "nvmlDeviceGetUtilizationRates": (ctypes.c_uint * 2,),
        "nvmlDeviceGetMemoryInfo": (ctypes.c_ulonglong * 3,),
        "nvmlDeviceGetPowerUsage": (ctypes.c_uint,),
        "nvmlDeviceGetEnforcedPowerLimit": (ctypes.c_uint,),
    }
    for function, (kind, *arguments) in kinds.items():
        times[function] = timed(lambda f=function, k=kind, a=arguments: nvml._value(gpu, f, k, *a))
    for number, scope, column, _ in (*sampler.FIELDS, *sampler.SLOW_FIELDS):
        array = (sampler.FieldValue * 1)(sampler.FieldValue(id=number, scope=scope))
        times[f"field {number} {column}"] = timed(
            lambda a=array: nvml._call("nvmlDeviceGetFieldValues", gpu.handle, 1, a) or a[0].error
        )
    times["processes"] = timed(lambda: nvml._processes(gpu))
    times["sample"] = timed(lambda: nvml.sample(False))
    times["slow sample"] = timed(lambda: nvml.sample(True))
    return times


def timed(call: Any, times: int = 20) -> dict[str, Any]:
    """Time a call: median of wall time, and mean of processor time, in microseconds; its last answer if an error."""
    walls, began = [], time.process_time()
    for _ in range(times):
        start = time.perf_counter()
        answer = call()
        walls.append(time.perf_counter() - start)
    cpu = (time.process_time() - began) / times
    error = answer if isinstance(answer, int) and answer else None
    return {"wall": round(1e6 * statistics.median(walls), 1), "cpu": round(1e6 * cpu, 1), "error": error}


if __name__ == "__main__":
    sys.exit(main())
