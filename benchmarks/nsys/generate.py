"""Generate a profile in nsys's export format.

    python benchmarks/nsys/generate.py profile.sqlite [--kernels 2000000] [--gpus 8]

Tables, columns and their order are those of nsys: kernels of one process per GPU, five steps with llmbx's ranges, and
the CUDA calls that launch the kernels. Nothing is measured. The kernels of all GPUs are sorted by start, as in a
capture of a whole node. Two million kernels make a file of about 230 MB.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PID = 0x0001000000000000
STEPS = 5
KERNEL = (
    "start", "end", "deviceId", "contextId", "greenContextId", "streamId", "correlationId", "globalPid",
    "demangledName", "shortName", "mangledName", "launchType", "cacheConfig", "registersPerThread", "gridX", "gridY",
    "gridZ", "blockX", "blockY", "blockZ", "staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread",
    "localMemoryTotal", "gridId", "sharedMemoryExecuted", "graphNodeId", "sharedMemoryLimitConfig",
)  # fmt: skip
RUNTIME = ("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue", "callchainId")
NVTX = (
    "start", "end", "eventType", "rangeId", "category", "color", "text", "globalTid", "endGlobalTid", "textId",
    "domainId", "uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue", "jsonTextId",
    "jsonText",
)  # fmt: skip
COMPUTE = [f"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_{n}>(T1::Params)" for n in range(30)]
COMPUTE += ["void at::native::vectorized_elementwise_kernel<(int)4, at::native::f<float>>(int, T2)"]
COLLECTIVES = [
    f"ncclDevKernel_{name}_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
    for name in ("AllReduce_Sum_bf16", "AllGather", "ReduceScatter_Sum_bf16")
]
NAMES = [*COMPUTE, *COLLECTIVES, "cudaLaunchKernel_v7000", "step"]


def main() -> None:
    """Write the file given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--kernels", type=int, default=2_000_000)
    parser.add_argument("--gpus", type=int, default=8)
    write(**vars(parser.parse_args()))


def write(path: Path, kernels: int, gpus: int) -> None:
    """Write the profile of `gpus` GPUs with a total of `kernels` kernels."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    table(connection, "StringIds", ("id", "value"), enumerate(NAMES, 1))
    table(connection, "META_DATA_EXPORT", ("name", "value"), [("EXPORT_SCHEMA_VERSION", "3.7.2")])
    table(connection, "NVTX_EVENTS", NVTX, [row for gpu in range(gpus) for row in ranges(gpu, kernels // gpus)])
    rows = heapq.merge(*(launched(gpu, kernels // gpus) for gpu in range(gpus)))
    table(connection, "CUPTI_ACTIVITY_KIND_KERNEL", KERNEL, rows)
    rows = heapq.merge(*(calls(gpu, kernels // gpus) for gpu in range(gpus)))
    table(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", RUNTIME, rows)
    connection.commit()
    connection.close()


def table(connection: sqlite3.Connection, name: str, columns: tuple[str, ...], rows: Any) -> None:
    """Create a table of the export and insert its rows."""
    kinds = {"value": "TEXT", "name": "TEXT", "text": "TEXT", "jsonText": "TEXT"}
    described = ", ".join(f"{column} {kinds.get(column, 'INTEGER')}" for column in columns)
    connection.execute(f"CREATE TABLE {name} ({described})")
    connection.executemany(f"INSERT INTO {name} VALUES ({','.join('?' * len(columns))})", rows)


def process(gpu: int) -> int:
    """Return the serialized id of the process that uses a GPU."""
    return PID | (1000 + gpu) << 24


def launched(gpu: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Yield one GPU's kernels: compute kernels in sequence, and every 20th a collective on a separate stream.

    Compute waits for every other collective, so part of it is exposed; the part grows with the GPU's number.
    """
    chance = random.Random(gpu)
    now = free = 1_000_000_000
    for n in range(count):
        if n % 20 == 19:
            start = max(free, now - chance.randrange(200_000))
            end = start + chance.randrange(20_000, 300_000 + 5_000 * gpu)
            free = end + 2_000
            yield kernel(start, end, gpu, 20, n, len(COMPUTE) + 1 + n // 20 % 3)
            now = max(now, end) if n % 40 == 39 else now
        else:
            end = now + chance.choice((2_000, 3_500, 8_000, 25_000, 60_000))
            yield kernel(now, end, gpu, 7, n, 1 + n % len(COMPUTE))
            now = end + chance.randrange(500, 3_000)


def kernel(start: int, end: int, gpu: int, stream: int, number: int, name: int) -> tuple[Any, ...]:
    """Return a row of the kernel table."""
    shape = (132, 8, 1, 256, 1, 1, 1024, 49_152, 0, 0)
    return (start, end, gpu, 1, None, stream, 3 * number + 100, process(gpu), name, name, None, 1, 0, 128, *shape,
            number, 65_536, None, 0)  # fmt: skip


def launch_times(gpu: int, count: int) -> list[int]:
    """Return launch times of one GPU's kernels: one every 9 us, at most 1,000 ahead of the GPU, the limit of CUDA."""
    starts = [row[0] for row in launched(gpu, count)]
    times: list[int] = []
    now = 900_000_000
    for n in range(count):
        now = max(now + 9_000, starts[n - 1_000] if n >= 1_000 else 0)
        times.append(now)
    return times


def calls(gpu: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Yield the calls that launch one GPU's kernels."""
    for n, start in enumerate(launch_times(gpu, count)):
        yield (start, start + 4_000, 0, process(gpu) | 7, 3 * n + 100, len(NAMES) - 1, 0, None)


def ranges(gpu: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Yield the step ranges of one process, each with an equal number of calls."""
    thread, blank = process(gpu) | 7, (None,) * 6
    yield (0, None, 75, None, None, None, "llmbx", thread, None, None, 1, None, None, *blank)
    times = launch_times(gpu, count)
    edges = [times[count * n // STEPS] - 2_000 for n in range(STEPS)] + [times[-1] + 5_000]
    for n, (start, end) in enumerate(itertools.pairwise(edges)):
        yield (start, end - 500, 59, None, None, None, None, thread, None, len(NAMES), 1, None, 45 + n, *blank)


if __name__ == "__main__":
    main()
