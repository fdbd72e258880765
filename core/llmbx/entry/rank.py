"""Rank, specification and messages of one process of a run.

The rank shim sets `LLMBX_RANK`, `LLMBX_LOCAL_RANK`, `LLMBX_WORLD_SIZE`, `LLMBX_LOCAL_WORLD_SIZE`, `LLMBX_NODE_RANK`,
`LLMBX_MASTER_ADDR` and `LLMBX_MASTER_PORT`; without them the process is a single rank.
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
    """One rank of a run, and the address of the rendezvous."""

    number: int
    """Number of the rank, from 0."""
    local: int
    """Its number on its node, from 0."""
    world: int
    """Number of ranks."""
    local_world: int
    """Number of ranks on its node."""
    node: int
    """Number of its node, from 0."""
    address: str
    """Host name or address of the rendezvous."""
    port: int
    """Port of the rendezvous."""

    @property
    def first(self) -> bool:
        """Whether it is rank 0."""
        return self.number == 0


def this(env: Mapping[str, str] | None = None) -> Rank:
    """The rank of this process; `env` is its environment (default: the current one)."""
    env = os.environ if env is None else env
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
    """Return the specification and the run folder, and let SIGUSR1 print the stacks of all threads."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    file = Path(os.environ.get("LLMBX_SPEC", "spec.json")).resolve()
    return json.loads(file.read_text(encoding="utf-8")), file.parent


def say_where(rank: Rank, env: Mapping[str, str] | None = None) -> None:
    """Log which ranks each node of a multi-rank run has, one line per node."""
    env = os.environ if env is None else env
    if rank.world > 1 and rank.local == 0:
        name = env.get("LLMBX_NODE_NAME") or platform.node()
        last = rank.number + rank.local_world - 1
        ranks = f"rank {last}" if last == rank.number else f"ranks {rank.number}-{last}"
        say(f"node {rank.node} ({name}) has {ranks} of {rank.world}")


def importable(module: str) -> bool:
    """Whether `module` is installed. Does not import it, only its parent packages."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def origin(spec: Mapping[str, Any]) -> str:
    """Text for error messages: the image or environment that should contain the recipe's framework."""
    image = (spec.get("image") or {}).get("reference")
    return f"the image {image} should have it" if image else f"its environment is '{spec.get('environment')}'"


def say(line: str) -> None:
    """Write one line to the log."""
    print(f"llmbx: {line}", file=sys.stderr, flush=True)


def stop(*lines: str) -> NoReturn:
    """Exit with status 2 (this image or machine cannot run it); the first rank of each node logs `lines`."""
    for line in lines if this().local == 0 else ():
        say(f"error: {line}")
    sys.exit(2)
