"""What goes wrong inside a rank: read from the file that FAULTS_FILE names, outside of the run's folder.

`pin`, `network` and `memory` are conditions of the faulty and of the healthy training; `inside` is the fault.
"""

from __future__ import annotations

import ctypes
import gc
import json
import mmap
import os
import time
from pathlib import Path
from typing import Any

CLONE_NEWNET = 0x40000000
BLOCK = 1 << 16


class Faults:
    """The faults of one rank; those of other ranks are left out."""

    def __init__(self, rank: int, content: dict[str, Any]) -> None:
        self.rank, self.content, self.step = rank, content, 0
        self.inside: dict[str, Any] = {
            kind: fault
            for kind, fault in content.get("inside", {}).items()
            if fault.get("ranks") is None or rank in fault["ranks"]
        }
        self.garbage: list[Any] = []
        self.file = -1

    @classmethod
    def read(cls, rank: int) -> Faults:
        """Read the file."""
        path = os.environ.get("FAULTS_FILE")
        return cls(rank, json.loads(Path(path).read_text()) if path else {})

    def before_torch(self) -> None:
        """Pin the rank to its core, enter its network, and set the number of threads."""
        if self.content.get("pin"):
            os.sched_setaffinity(0, {self.rank % (os.cpu_count() or 1)})
        network = self.content.get("network")
        if network:
            if name := network["namespaces"][self.rank]:
                enter(f"/var/run/netns/{name}")
            os.environ["GLOO_SOCKET_IFNAME"] = network["interfaces"][self.rank]
        threads = self.inside.get("threads", {"count": 1})["count"]
        os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)

    def now(self, kind: str) -> Any:
        """Return a fault if it acts in this step."""
        fault = self.inside.get(kind)
        if fault is None or not fault.get("first", 0) <= self.step <= fault.get("last", 1 << 30):
            return None
        return fault

    def loading(self) -> None:
        """Load a sample slowly: sleep, compute, or read a file without the page cache."""
        if fault := self.now("loader"):
            time.sleep(fault.get("sleep_ms", 0) / 1000)
            burn(fault.get("busy_ms", 0))
        if disk := self.content.get("disk"):
            self.read_disk(disk)

    def read_disk(self, disk: dict[str, Any]) -> None:
        """Read the next part of a file from the disk."""
        if self.file < 0:
            self.file = os.open(disk["file"], os.O_RDONLY | os.O_DIRECT)
            self.buffer = mmap.mmap(-1, BLOCK)
            self.place = self.rank << 24
        size = os.fstat(self.file).st_size
        for _ in range(disk["blocks"]):
            self.place = (self.place + BLOCK) % (size - BLOCK) // BLOCK * BLOCK
            os.preadv(self.file, [self.buffer], self.place)

    def sequence(self, usual: int) -> int:
        """Return the length of the samples of this step."""
        if (fault := self.now("shapes")) and self.step % fault["every"] == 0:
            return usual + self.step // fault["every"] % fault["sizes"] - fault["sizes"] // 2
        return usual

    def backward(self, *_: Any) -> None:
        """Compute more than the others, in the backward pass."""
        if fault := self.now("busy"):
            burn(fault["ms"])
        if fault := self.now("drift"):
            burn(fault["ms_per_step"] * (self.step - fault.get("first", 0)))
        if fault := self.now("warm_up"):
            burn(fault["ms"] * 0.5 ** (self.step / fault["half"]))

    def collect(self) -> None:
        """Collect garbage among many objects."""
        fault = self.now("garbage")
        if fault is None:
            return
        if not self.garbage:
            self.garbage = [[number, {}] for number in range(fault["objects"])]
        if self.step % fault["every"] == 0:
            gc.collect()


class Memory:
    """Memory that each step uses: anonymous, or mapped from a file, as a table of embeddings."""

    def __init__(self, content: dict[str, Any], rank: int) -> None:
        self.mapped, self.held, self.touched = None, None, 0
        memory = content.get("memory", {})
        if memory.get("ranks") is not None and rank not in memory["ranks"]:
            return
        self.touched = memory.get("pages", 0)
        if path := memory.get("file"):
            with Path(path).open("rb") as file:
                self.mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            self.mapped.madvise(mmap.MADV_RANDOM)
        if size := memory.get("held_mb"):
            self.held = bytearray(os.urandom(1 << 20) * size)
        self.place = 0

    def touch(self) -> int:
        """Read the next pages, at an odd stride."""
        area = self.mapped if self.mapped is not None else self.held
        total = 0
        for _ in range(self.touched if area is not None else 0):
            assert area is not None
            self.place = (self.place + 4096 * 7919) % len(area)
            total += area[self.place]
        return total


def enter(namespace: str) -> None:
    """Enter a network namespace."""
    with Path(namespace).open("rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)


def burn(milliseconds: float) -> None:
    """Use the processor for this time of the process."""
    end = time.thread_time_ns() + int(milliseconds * 1e6)
    while time.thread_time_ns() < end:
        sum(range(2000))
