"""Failures that the ranks of a real training are made to have, and what llmbx must name. docs/faults.md has this table.

Each is a training with PyTorch of two to four ranks under a real Slurm (`tests/fixtures/fault_injector/failures.py`).
What the other ranks print about it is what PyTorch, gloo, srun and Slurm print.
"""

from __future__ import annotations

import dataclasses
from typing import Any

SAMPLE = "raise ValueError('sample 88213 has 4097 tokens')"
SPIKE = "class LossSpike(Exception): pass\nraise LossSpike('9.1 after 3.2')"
LOUD = "await_log({!r})\nraise RuntimeError('CUDA error: an illegal memory access was encountered')"
AFTERWARDS = """\
import torch
try:
    torch.distributed.barrier()
finally:
    raise LookupError("no rank 1 in the table of ranks")
"""
CAUGHT = """\
import traceback
try:
    import flash_attention_that_is_not_there
except ImportError:
    traceback.print_exc()
"""
THREAD = """\
import threading, time
def prefetch(): raise KeyError("shard-00017")
threading.Thread(target=prefetch).start()
time.sleep(3600)
"""
WORKER = """\
import os, signal, torch
class Texts(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, place): {}
list(torch.utils.data.DataLoader(Texts(), num_workers=1))
"""
EXIT = "import os\nos._exit(3)"  # at once: PyTorch, at its own end, sometimes aborts and says so
SIGNAL = "import os, time\nos.kill(os.getpid(), {})\ntime.sleep(9)"
SEGFAULT = "import ctypes\nctypes.string_at(0)"
STACK = f"import faulthandler\nfaulthandler.enable()\n{SEGFAULT}"
BUS = """\
import mmap, tempfile
file = tempfile.TemporaryFile()
file.truncate(4096)
shards = mmap.mmap(file.fileno(), 4096)
file.truncate(0)
shards[0]
"""
FULL = "open('/dev/full', 'w', buffering=1).write('x\\n')"
CHECKPOINT = "import torch\ntorch.save([torch.zeros(1 << 20)], '/dev/full')"
RENDEZVOUS = "import os, socket\nsocket.create_server(('', int(os.environ['LLMBX_MASTER_PORT']))).detach()"
PORT = "import socket\nown = socket.create_server(('127.0.0.1', 0))\nsocket.create_server(own.getsockname())"
BARRIER = "import datetime, torch\ntorch.distributed.monitored_barrier(timeout=datetime.timedelta(seconds=4))"
REDUCE = "import torch\ntorch.distributed.all_reduce(torch.zeros({}))"
SLEEP = "import time\ntime.sleep(3600)"
IDLE = {0: SLEEP, 1: SLEEP}
"""Both ranks wait for what is done to them from outside."""
STOPPED = SIGNAL.format(19)
TIMEOUT = "Timed out waiting 4000ms or Application timeout caused pair closure"


@dataclasses.dataclass(frozen=True)
class Failure:
    """A failure: what ranks do, and what must be named.

    `start` and `step` have the Python text by rank: before the process group is made, or before the sixth step of the
    optimizer. `cause` is in the cause, or one of several (`... or ...`). `rank` is the rank that is named, `ranks` are
    those that failed alike. `only` are the ranks that only echo it: they print something afterwards and are never
    named. `outside` is what is done to the job from outside. Ranks have a node each, unless there are four: two on each
    node.
    """

    cause: str
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    step: dict[int, str] = dataclasses.field(default_factory=dict)
    start: dict[int, str] = dataclasses.field(default_factory=dict)
    only: tuple[int, ...] = ()
    world: int = 2
    infrastructure: bool | None = False
    doubt: bool = False
    """Whether it must be said that the rank is not sure."""
    status: str = "failed"
    lost: str | None = None
    """The node that is named where no rank is."""
    outside: str | None = None
    timeout_s: int | None = None
    """How long a collective waits from the sixth step on."""
    start_timeout_s: int | None = None
    """How long the process group waits for its ranks."""
    patient: bool = True
    """Whether srun lets the other ranks end by themselves; else it ends them at once."""
    sbatch: tuple[str, ...] = ()
    training: str = "PyTorch"
    """Whose training it is; a mini of the framework."""

    @property
    def named(self) -> tuple[int, ...]:
        """All ranks that are named."""
        return self.ranks or (() if self.rank is None else (self.rank,))

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return 2 if self.world == 4 else self.world

    @property
    def node(self) -> str | None:
        """The node that is named: that of the rank."""
        return self.lost if self.rank is None else f"n{self.rank // (self.world // self.nodes) + 1}"

    @property
    def inject(self) -> dict[str, Any]:
        """What the injector is given."""
        waits = {"timeout_s": self.timeout_s, "start_timeout_s": self.start_timeout_s}
        return {
            "start": self.start, "step": self.step, **{name: each for name, each in waits.items() if each is not None}
        }  # fmt: skip


UNKNOWN: dict[str, Any] = {"infrastructure": None}
"""Whether other nodes help is not known: the rank says nothing."""

ALONE: dict[str, Any] = {"start_timeout_s": 10}
"""The others wait for ten seconds."""

MEMORY: dict[str, Any] = {"status": "out_of_memory"}
HANG: dict[str, Any] = {"timeout_s": 4, "patient": False, "doubt": True, "infrastructure": None}
"""The others wait for four seconds, and are then ended with the rank that hangs."""

TRAININGS = {
    "PyTorch": ("torch_lm", "--steps", "30"),
    "Megatron-Bridge": ("llama3.1", "--plugin", "nemo", "--size", "mini", "--steps", "8"),
}
"""What is run."""

FAILURES: dict[str, Failure] = {
    "an exception": Failure("ValueError: sample 88213", 2, step={2: SAMPLE}, only=(0, 1, 3), world=4),
    "an exception of a class of its own": Failure("LossSpike: 9.1 after 3.2", 1, step={1: SPIKE}, only=(0,)),
    "an exception, later a louder one of another rank": Failure(
        "ValueError: sample 88213", 2, step={2: SAMPLE, 0: LOUD.format("4097 tokens")}, only=(1,), world=3
    ),
    "an exception, earlier another one that was caught": Failure(
        "ValueError: sample 88213", 1, start={0: CAUGHT}, step={1: SAMPLE}, only=(0,)
    ),
    "an assertion without text": Failure("AssertionError", 1, step={1: "assert 4096 == 4097"}, only=(0,)),
    "an exception in a thread, and a hang": Failure(
        "KeyError: 'shard-00017'", 1, step={1: THREAD}, only=(0,), timeout_s=4, patient=False
    ),
    "the same exception on two ranks": Failure(
        "ValueError: sample 88213", ranks=(0, 2), step={0: SAMPLE, 2: SAMPLE}, only=(1,), world=3
    ),
    "a loss that is not finite": Failure(
        "FloatingPointError: loss is nan", 1, step={1: "raise FloatingPointError('loss is nan')"}, only=(0,)
    ),
    "an exception in a worker of the data loader": Failure(
        "ValueError: sample 88213", 1, step={1: WORKER.format(SAMPLE)}, only=(0,)
    ),
    "a worker of the data loader killed": Failure(
        "is killed by signal: Killed", 1, step={1: WORKER.format("os.kill(os.getpid(), 9)")}, only=(0,)
    ),
    "an exit code without a word": Failure(
        "ended with exit code 3", 1, step={1: EXIT}, only=(0,), **UNKNOWN
    ),
    "an exit before the process group": Failure(
        "ended with exit code 5", 1, start={1: "raise SystemExit(5)"}, only=(0,), **ALONE, **UNKNOWN
    ),
    "an exit with code 0 before the process group": Failure(
        "DistStoreError: ", start={1: "raise SystemExit(0)"}, doubt=True, infrastructure=True, **ALONE
    ),
    "SIGKILL": Failure("was killed by SIGKILL", 1, step={1: SIGNAL.format(9)}, only=(0,), **UNKNOWN),
    "SIGKILL, later a louder exception of another rank": Failure(
        "was killed by SIGKILL", 1, step={1: SIGNAL.format(9), 0: AFTERWARDS}, **UNKNOWN
    ),
    "SIGTERM": Failure("was killed by SIGTERM", 1, step={1: SIGNAL.format(15)}, only=(0,), **UNKNOWN),
    "SIGINT": Failure("was killed by SIGINT", 1, step={1: SIGNAL.format(2)}, only=(0,), **UNKNOWN),
    "SIGSEGV": Failure("was killed by SIGSEGV", 1, step={1: SEGFAULT}, only=(0,), **UNKNOWN),
    "SIGSEGV with a stack": Failure("Fatal Python error: Segmentation", 0, step={0: STACK}, only=(1,), **UNKNOWN),
    "SIGABRT": Failure("was killed by SIGABRT", 1, step={1: SIGNAL.format(6)}, only=(0,), **UNKNOWN),
    "SIGBUS": Failure("was killed by SIGBUS", 1, step={1: BUS}, only=(0,), **UNKNOWN),
    "the memory limit of the step": Failure(
        "oom-kill", 3, step={3: "kept = b'x' * 3_000_000_000"}, only=(0, 1, 2), world=4, sbatch=("mem=2000",), **MEMORY
    ),
    "an allocation of PyTorch that fails": Failure(
        "DefaultCPUAllocator", 1, step={1: "import torch\ntorch.empty(1 << 46)"}, only=(0,), **MEMORY
    ),
    "an allocation of Python that fails": Failure(
        "MemoryError", 0, step={0: "bytearray(1 << 60)"}, only=(1,), **MEMORY
    ),
    "a full disk": Failure("No space left on device", 1, step={1: FULL}, only=(0,)),
    "a checkpoint on a full disk, later a louder exception of another rank": Failure(
        "iostream error", 1, step={1: CHECKPOINT, 0: LOUD.format("iostream error")}, only=(2,), world=3
    ),
    "the port of the rendezvous in use": Failure(
        "failed to listen on any local network address", 0, start={0: RENDEZVOUS}, infrastructure=True, patient=False
    ),
    "another port in use": Failure("Address already in use", 1, step={1: PORT}, only=(0,), **UNKNOWN),
    "a module that one node lacks": Failure(
        "No module named 'fancy_kernels'", 1, start={1: "import fancy_kernels"}, only=(0,), **ALONE
    ),
    "a file that one node lacks": Failure(
        "FileNotFoundError: [Errno 2] No such file or directory: '/scratch/vocab.json'", 1,
        step={1: "open('/scratch/vocab.json')"}, only=(0,),
    ),
    "a hang": Failure(TIMEOUT, step={1: SLEEP}, **HANG),
    "a stopped rank": Failure(TIMEOUT, step={1: STOPPED}, **HANG),
    "a stopped rank that a barrier names": Failure(
        "Rank 1 failed to pass monitoredBarrier", 1, step={0: BARRIER, 1: STOPPED, 2: BARRIER}, world=3,
        patient=False, **UNKNOWN,
    ),
    "collectives of different sizes": Failure(
        "data size doesn't match expected size", 0, step={0: REDUCE.format(3), 1: REDUCE.format(700)}, only=(1,)
    ),
    "an exception in a framework": Failure(
        "ValueError: sample 88213", 1, step={1: SAMPLE}, only=(0,), training="Megatron-Bridge"
    ),
    "a lost node": Failure("NODE_FAIL", lost="n6", step=IDLE, outside="lose", status="node_fail", infrastructure=True),
    "the time limit": Failure("TIMEOUT", step=IDLE, outside="limit", status="timeout", **UNKNOWN),
    "an output that cannot be opened": Failure(
        "n1 could not open the job's output", lost="n1", outside="block", sbatch=("hold",), infrastructure=True
    ),
    "a job that its user cancels": Failure("CANCELLED", step=IDLE, outside="cancel", status="cancelled", **UNKNOWN),
}  # fmt: skip
