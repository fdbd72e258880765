"""The program of one rank: reads the specification, says what it finds, and hands over to the recipe's driver.

Started as `python code/train.py` in the run folder, with `LLMBX_SPEC` naming the specification and `LLMBX_RANK`,
`LLMBX_LOCAL_RANK`, `LLMBX_WORLD_SIZE`, `LLMBX_MASTER_ADDR` and `LLMBX_MASTER_PORT` set. Exit status 2: this image or
machine cannot run the recipe, said in one line each.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmbx_nemo.entry import seen

DRIVERS = {
    "megatron-bridge": ("megatron.bridge", "Megatron-Bridge"),
    "nemo2": ("nemo.collections.llm", "NeMo 2"),
}
"""Each driver's module and its name for people."""

RANK_VARIABLES = {
    "RANK": ("LLMBX_RANK", "0"),
    "LOCAL_RANK": ("LLMBX_LOCAL_RANK", "0"),
    "WORLD_SIZE": ("LLMBX_WORLD_SIZE", "1"),
    "LOCAL_WORLD_SIZE": ("LLMBX_LOCAL_WORLD_SIZE", "1"),
    "MASTER_ADDR": ("LLMBX_MASTER_ADDR", "127.0.0.1"),
    "MASTER_PORT": ("LLMBX_MASTER_PORT", "29500"),
}
"""What torch.distributed reads, where it comes from, and the value for a lone process."""

CPU_THREADS = 8
"""More threads than this slow a mini down."""


def rank_environment(env: Mapping[str, str]) -> dict[str, str]:
    """torch.distributed's variables from llmbx's; a lone process when neither is set."""
    return {name: env.get(ours) or env.get(name) or lone for name, (ours, lone) in RANK_VARIABLES.items()}


def threads(cores: int, ranks: int) -> int:
    """Threads of one rank when `ranks` share `cores`."""
    return max(1, min(CPU_THREADS, cores // ranks))


def limit_memory(ranks: int, meminfo: Path = Path("/proc/meminfo")) -> None:
    """Let an allocation fail when this rank's share of the free memory is used up.

    Otherwise the kernel would end whichever process it likes, without a word in the log.
    """
    available = next(line for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable"))
    limit = int(available.split()[1]) * 1024 // ranks
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def missing_driver(spec: dict[str, Any]) -> str | None:
    """One line when the recipe's driver is not in this image, else None."""
    driver = spec["driver"]
    if driver not in DRIVERS:
        return f"driver '{driver}' is unknown here (known: {', '.join(DRIVERS)})"
    module, name = DRIVERS[driver]
    if importable(module):
        return None
    image = (spec.get("image") or {}).get("reference")
    where = f"the image {image} has it" if image else f"its environment is '{spec.get('environment')}'"
    return f"recipe '{spec['recipe']}' needs {name}, which {sys.executable} cannot import ({module}): {where}"


def importable(module: str) -> bool:
    """Whether `module` is installed, found without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def stop(lines: list[str]) -> None:
    """End with status 2; the first rank of each node says why, on standard error."""
    for line in lines if os.environ["LOCAL_RANK"] == "0" else ():
        print(f"llmbx: error: {line}", file=sys.stderr, flush=True)
    sys.exit(2)


def main() -> None:
    """Run one rank."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    file = Path(os.environ.get("LLMBX_SPEC", "spec.json")).resolve()
    spec = json.loads(file.read_text())
    os.environ.update(rank_environment(os.environ))
    missing = missing_driver(spec)
    if missing:
        stop([missing])
    if spec["gpu_type"] == "cpu":
        ranks = int(os.environ["LOCAL_WORLD_SIZE"])
        os.environ.setdefault("OMP_NUM_THREADS", str(threads(len(os.sched_getaffinity(0)), ranks)))
        limit_memory(ranks)
    if os.environ["RANK"] == "0":
        seen.write(file.parent / "seen.json")
    driver = importlib.import_module(f"llmbx_nemo.entry.{'nemo2' if spec['driver'] == 'nemo2' else 'bridge'}")
    problems = driver.run(spec, file.parent)
    if problems:
        stop(problems)


if __name__ == "__main__":
    main()
