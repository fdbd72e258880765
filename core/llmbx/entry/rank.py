"""One rank: which one it is, what it is to do, and how it says that it cannot.

The rank shim sets `LLMBX_RANK`, `LLMBX_LOCAL_RANK`, `LLMBX_WORLD_SIZE`, `LLMBX_LOCAL_WORLD_SIZE`, `LLMBX_NODE_RANK`,
`LLMBX_MASTER_ADDR` and `LLMBX_MASTER_PORT`; a program that is started by hand is a lone rank.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import os
import platform
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn


@dataclass(frozen=True)
class Rank:
    """A rank's number among `world`, and among the `local_world` of its node; where rank 0 awaits the others."""

    number: int
    local: int
    world: int
    local_world: int
    node: int
    address: str
    port: int

    @property
    def first(self) -> bool:
        """Whether it is the first of all."""
        return self.number == 0


def this(env: Mapping[str, str] = os.environ) -> Rank:
    """The rank that this process is."""
    return Rank(
        number=int(env.get("LLMBX_RANK") or 0),
        local=int(env.get("LLMBX_LOCAL_RANK") or 0),
        world=int(env.get("LLMBX_WORLD_SIZE") or 1),
        local_world=int(env.get("LLMBX_LOCAL_WORLD_SIZE") or 1),
        node=int(env.get("LLMBX_NODE_RANK") or 0),
        address=env.get("LLMBX_MASTER_ADDR") or "127.0.0.1",
        port=int(env.get("LLMBX_MASTER_PORT") or 29500),
    )


def begin() -> tuple[dict[str, Any], Path]:
    """The specification and the run folder that it lies in; from here on SIGUSR1 prints every thread's stack."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    file = Path(os.environ.get("LLMBX_SPEC", "spec.json")).resolve()
    return json.loads(file.read_text(encoding="utf-8")), file.parent


def say_where(rank: Rank, env: Mapping[str, str] = os.environ) -> None:
    """A line for each node of a run with several ranks: which of them it has."""
    if rank.world > 1 and rank.local == 0:
        name = env.get("LLMBX_NODE_NAME") or platform.node()
        ranks = f"rank {rank.number}" if rank.local_world == 1 else f"{rank.local_world} ranks from {rank.number} on"
        say(f"node {rank.node} ({name}) has {ranks} of {rank.world}")


def importable(module: str) -> bool:
    """Whether `module` is installed, found without importing it (its parents are)."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def origin(spec: Mapping[str, Any]) -> str:
    """What should have the recipe's framework: the image or the environment of the run."""
    image = (spec.get("image") or {}).get("reference")
    return f"the image {image} should have it" if image else f"its environment is '{spec.get('environment')}'"


def say(line: str) -> None:
    """One line for the log."""
    print(f"llmbx: {line}", file=sys.stderr, flush=True)


def stop(*lines: str) -> NoReturn:
    """End with status 2, this image or machine cannot run it; the first rank of each node says why, a line each."""
    for line in lines if this().local == 0 else ():
        say(f"error: {line}")
    sys.exit(2)
