"""The program of one rank: reads the specification, records versions and devices, and calls the recipe's driver.

It is started as `python code/train.py` in the run folder. `LLMBX_SPEC` is the path of the specification, and
`LLMBX_RANK`, `LLMBX_LOCAL_RANK`, `LLMBX_WORLD_SIZE`, `LLMBX_MASTER_ADDR` and `LLMBX_MASTER_PORT` are set. If this image
or machine cannot run the recipe, the program prints one line per problem and exits with status 2.
"""

from __future__ import annotations

import importlib
import os
import resource
import sys
from pathlib import Path
from typing import Any

from llmbx.entry import rank, seen

DRIVERS = {
    "megatron-bridge": ("megatron.bridge", "Megatron-Bridge"),
    "nemo2": ("nemo.collections.llm", "NeMo 2"),
}
"""Module and display name of each driver."""

VARIABLES = ("NEMO_", "MEGATRON_", "MCORE_", "LIGHTNING_")
"""Beginnings of the names of variables that change what the framework does."""

PACKAGES = (
    "torch", "megatron-core", "megatron-bridge", "nemo-toolkit", "flash-attn", "transformers", "triton",
)  # fmt: skip
"""Packages whose versions are part of a result."""

CPU_THREADS = 8
"""Maximum number of threads per rank; more threads slow a small model down."""

MINI_THREADS = 1
"""Number of threads per rank of a mini. Its operations are so short that starting a second thread takes longer than the
computation: on two cores a step of Grok-1's mini takes 0.65 s with two threads and 0.43 s with one."""


def rank_environment(this: rank.Rank) -> dict[str, str]:
    """Return the variables that torch.distributed reads and that launchers like torchrun set."""
    return {
        "RANK": str(this.number),
        "LOCAL_RANK": str(this.local),
        "WORLD_SIZE": str(this.world),
        "LOCAL_WORLD_SIZE": str(this.local_world),
        "MASTER_ADDR": this.address,
        "MASTER_PORT": str(this.port),
    }


def threads(cores: int, ranks: int, mini: bool) -> int:
    """Return the number of threads per rank if `ranks` share `cores`."""
    return MINI_THREADS if mini else max(1, min(CPU_THREADS, cores // ranks))


def limit_memory(ranks: int, meminfo: Path = Path("/proc/meminfo")) -> None:
    """Limit the memory of this process to its share of the available memory, so that larger allocations fail.

    Otherwise the kernel would kill any process of the machine, without a message in the log.
    """
    available = next(
        line for line in meminfo.read_text(encoding="utf-8").splitlines() if line.startswith("MemAvailable")
    )
    limit = int(available.split()[1]) * 1024 // ranks
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def missing_driver(spec: dict[str, Any]) -> str | None:
    """Return an error message if the recipe's driver is not installed, else None."""
    driver = spec["driver"]
    if driver not in DRIVERS:
        return f"unknown driver '{driver}' (known: {', '.join(DRIVERS)})"
    module, name = DRIVERS[driver]
    if rank.importable(module):
        return None
    where = rank.origin(spec)
    return f"recipe '{spec['recipe']}' needs {name}, which {sys.executable} cannot import ({module}): {where}"


def gpus() -> list[dict[str, Any]]:
    """Return the CUDA devices of this rank, with torch's CUDA and NCCL versions; empty without a device."""
    import torch

    if not torch.cuda.is_available():
        return []
    shared = {"cuda": torch.version.cuda, "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    devices = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return [
        {
            "name": device.name,
            "memory_bytes": device.total_memory,
            "multiprocessors": device.multi_processor_count,
            "capability": f"{device.major}.{device.minor}",
            **shared,
        }
        for device in devices
    ]


def main() -> None:
    """Run one rank."""
    spec, folder = rank.begin()
    this = rank.this()
    os.environ.update(rank_environment(this))
    if missing := missing_driver(spec):
        rank.stop(missing)
    rank.say_where(this)
    if spec["gpu_type"] == "cpu":
        os.environ.setdefault(
            "OMP_NUM_THREADS", str(threads(len(os.sched_getaffinity(0)), this.local_world, spec["mini"]))
        )
        limit_memory(this.local_world)
    if this.first:
        seen.write(folder, PACKAGES, gpus(), VARIABLES)
    driver = importlib.import_module(f"llmbx_nemo.entry.{'nemo2' if spec['driver'] == 'nemo2' else 'bridge'}")
    if problems := driver.run(spec, folder):
        rank.stop(*problems)


if __name__ == "__main__":
    main()
