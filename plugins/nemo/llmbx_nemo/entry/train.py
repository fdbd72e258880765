"""The program of one rank: reads the specification, says what it finds, and hands over to the recipe's driver.

Started as `python code/train.py` in the run folder, with `LLMBX_SPEC` naming the specification and `LLMBX_RANK`,
`LLMBX_LOCAL_RANK`, `LLMBX_WORLD_SIZE`, `LLMBX_MASTER_ADDR` and `LLMBX_MASTER_PORT` set. Exit status 2: this image or
machine cannot run the recipe, said in one line each.
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
"""Each driver's module and its name for people."""

PACKAGES = (
    "torch", "megatron-core", "megatron-bridge", "nemo-toolkit", "flash-attn", "transformers", "triton",
)  # fmt: skip
"""Packages whose versions belong to a result."""

CPU_THREADS = 8
"""More threads than this slow a small model down."""

MINI_THREADS = 1
"""A mini's operations are so short that handing them to a second thread takes longer than computing them: on two cores
a step of Grok-1's mini takes 0.65 s with two threads and 0.43 s with one."""


def rank_environment(this: rank.Rank) -> dict[str, str]:
    """The variables that torch.distributed reads: where a launcher like torchrun would set them, this rank does."""
    return {
        "RANK": str(this.number),
        "LOCAL_RANK": str(this.local),
        "WORLD_SIZE": str(this.world),
        "LOCAL_WORLD_SIZE": str(this.local_world),
        "MASTER_ADDR": this.address,
        "MASTER_PORT": str(this.port),
    }


def threads(cores: int, ranks: int, mini: bool) -> int:
    """Threads of one rank when `ranks` share `cores`."""
    return MINI_THREADS if mini else max(1, min(CPU_THREADS, cores // ranks))


def limit_memory(ranks: int, meminfo: Path = Path("/proc/meminfo")) -> None:
    """Let an allocation fail when this rank's share of the free memory is used up.

    Otherwise the kernel would end whichever process it likes, without a word in the log.
    """
    available = next(
        line for line in meminfo.read_text(encoding="utf-8").splitlines() if line.startswith("MemAvailable")
    )
    limit = int(available.split()[1]) * 1024 // ranks
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def missing_driver(spec: dict[str, Any]) -> str | None:
    """One line when the recipe's driver is not in this image, else None."""
    driver = spec["driver"]
    if driver not in DRIVERS:
        return f"driver '{driver}' is unknown here (known: {', '.join(DRIVERS)})"
    module, name = DRIVERS[driver]
    if rank.importable(module):
        return None
    where = rank.origin(spec)
    return f"recipe '{spec['recipe']}' needs {name}, which {sys.executable} cannot import ({module}): {where}"


def gpus() -> list[dict[str, Any]]:
    """This rank's CUDA devices, with CUDA and NCCL as torch was built; empty without a device."""
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
        seen.write(folder, PACKAGES, gpus())
    driver = importlib.import_module(f"llmbx_nemo.entry.{'nemo2' if spec['driver'] == 'nemo2' else 'bridge'}")
    if problems := driver.run(spec, folder):
        rank.stop(*problems)


if __name__ == "__main__":
    main()
