"""Failures that the ranks of a real training are made to have, and what llmbx must name. docs/faults.md has this table.

Each is a training with PyTorch of two to four ranks under a real Slurm (`tests/fixtures/fault_injector/failures.py`).
What the other ranks print about it is what PyTorch, gloo, srun and Slurm print.
"""

from __future__ import annotations

import dataclasses
from typing import Any

GLOO = "Connection closed by peer"
WAIT = "import time; time.sleep(3600)"
LOUD = "raise RuntimeError('CUDA error: an illegal memory access was encountered')"


@dataclasses.dataclass(frozen=True)
class Failure:
    """A failure: what ranks do, and what must be named.

    `start` and `step` have the Python text by rank: before the process group is made, or before the sixth step of the
    optimizer. `cause` is a regular expression for the cause. `rank` is the rank that is named, `ranks` are all that may
    be; None: none. `only` are the ranks that only echo it: they print something afterwards and are never named.
    `outside` is what is done to the job from outside. Ranks have a node each, unless there are four: two on each node.
    """

    cause: str
    rank: int | None = None
    ranks: tuple[int, ...] | None = None
    step: dict[str, str] = dataclasses.field(default_factory=dict)
    start: dict[str, str] = dataclasses.field(default_factory=dict)
    only: tuple[int, ...] = ()
    world: int = 2
    timeout_s: int | None = None
    start_timeout_s: int | None = None
    infrastructure: bool | None = False
    doubt: str | None = None
    status: str = "failed"
    outside: str | None = None
    patient: bool = True
    """Whether srun lets the other ranks end by themselves; else it ends them at once."""
    arguments: tuple[str, ...] = ()

    @property
    def inject(self) -> dict[str, Any]:
        """What the injector is given."""
        texts = {"start": self.start, "step": self.step}
        waits = {"timeout_s": self.timeout_s, "start_timeout_s": self.start_timeout_s}
        return {**texts, **{name: seconds for name, seconds in waits.items() if seconds is not None}}

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return 2 if self.world == 4 else self.world


BARRIER = """\
import datetime, torch
torch.distributed.monitored_barrier(timeout=datetime.timedelta(seconds=4))
"""
STOP = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
BUS = """\
import mmap, tempfile
file = tempfile.TemporaryFile()
file.truncate(4096)
shards = mmap.mmap(file.fileno(), 4096)
file.truncate(0)
shards[0]
"""
WORKER = """\
import os, signal, torch
class Texts(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, place):
        {}
list(torch.utils.data.DataLoader(Texts(), num_workers=1))
"""
THREAD = """\
import threading, time
def prefetch(): raise KeyError("shard-00017")
threading.Thread(target=prefetch).start()
time.sleep(3600)
"""
SAME = "raise ValueError('sample 88213 has 4097 tokens')"
CAUGHT = """\
import traceback
try:
    import flash_attention_that_is_not_there
except ImportError:
    traceback.print_exc()
"""

FAILURES: dict[str, Failure] = {
    "an exception": Failure("ValueError: sample 88213", 2, step={"2": SAME}, only=(0, 1, 3), world=4),
    "an exception of a class of its own": Failure(
        r"LossSpike: 9\.1 after 3\.2", 1, step={"1": "class LossSpike(Exception): pass\nraise LossSpike('9.1 after 3.2')"}, only=(0,)
    ),
    "an exception, and a louder one of another rank later": Failure(
        "ValueError: sample 88213", 2, step={"2": SAME, "0": f"await_log('4097 tokens')\n{LOUD}"}, only=(1,), world=3
    ),
    "an exception after one that was caught": Failure(
        "ValueError: sample 88213", 1, start={"0": CAUGHT}, step={"1": SAME}, only=(0,)
    ),
    "an assertion without text": Failure("AssertionError", 3, step={"3": "assert 4096 == 4097"}, only=(0, 1, 2), world=4),
    "an exception in a thread": Failure("KeyError: 'shard-00017'", 1, step={"1": THREAD}, only=(0, 2), world=3, timeout_s=4, patient=False),
    "two ranks with one exception": Failure(
        "ValueError: sample 88213", None, (0, 2), step={"0": SAME, "2": SAME}, only=(1,), world=3
    ),
    "a loss that is not finite": Failure(
        "FloatingPointError: loss is nan", 2, step={"2": "raise FloatingPointError('loss is nan at step 6')"}, only=(0, 1), world=3
    ),
    "an exit code without a word": Failure("rank 1 .*exit code 3", 1, step={"1": "raise SystemExit(3)"}, only=(0, 2), world=3),
    "an exit before the process group": Failure(
        "rank 1 .*exit code 5", 1, start={"1": "raise SystemExit(5)"}, only=(0, 2), world=3, start_timeout_s=10
    ),
    "an exit with code 0 before the process group": Failure(
        "DistStoreError: (wait|[Tt]imed out)", None, (0, 2), start={"1": "raise SystemExit(0)"}, world=3, start_timeout_s=10, doubt=".", infrastructure=True
    ),
    "SIGKILL": Failure("rank 2 .*SIGKILL", 2, step={"2": "import os; os.kill(os.getpid(), 9)"}, only=(0, 1), world=3),
    "SIGTERM": Failure("rank 1 .*SIGTERM", 1, step={"1": "import os; os.kill(os.getpid(), 15)"}, only=(0,)),
    "SIGINT": Failure("KeyboardInterrupt|SIGINT", 1, step={"1": "import os, time; os.kill(os.getpid(), 2); time.sleep(9)"}, only=(0,)),
    "SIGSEGV": Failure("rank 1 .*SIGSEGV|Segmentation", 1, step={"1": "import ctypes; ctypes.string_at(0)"}, only=(0,)),
    "SIGSEGV with a stack": Failure(
        "Fatal Python error: Segmentation fault", 0, step={"0": "import ctypes, faulthandler; faulthandler.enable(); ctypes.string_at(0)"}, only=(1,)
    ),
    "SIGABRT": Failure("rank 2 .*SIGABRT|Abort", 2, step={"2": "import os; os.abort()"}, only=(0, 1), world=3),
    "SIGBUS": Failure("rank 1 .*SIGBUS|Bus error", 1, step={"1": BUS}, only=(0,)),
    "out of memory of the node": Failure(
        "oom.kill|memory", 1, step={"1": "kept = b'x' * 3_000_000_000"}, only=(0,), status="out_of_memory",
        arguments=("--slurm-arg", "mem=1500"),
    ),
    "an allocation that fails": Failure(
        "DefaultCPUAllocator", 1, step={"1": "import torch; torch.empty(1 << 46)"}, only=(0,), status="out_of_memory"
    ),
    "MemoryError": Failure("MemoryError", 0, step={"0": "bytearray(1 << 60)"}, only=(1,), status="out_of_memory"),
    "a full disk": Failure(
        "No space left", 1, step={"1": "open('/dev/full', 'w', buffering=1).write('x\\n')"}, only=(0,)
    ),
    "a full disk, and a louder rank": Failure(
        "unexpected pos|iostream|No space|file write failed", 1,
        step={"1": "import torch; torch.save([torch.zeros(1 << 20)], '/dev/full')", "0": f"await_log('Error')\n{LOUD}"}, only=(2,), world=3,
    ),
    "the port of the rendezvous in use": Failure(
        "EADDRINUSE|[Aa]ddress already in use", 0, infrastructure=True, start_timeout_s=10, patient=False,
        start={"0": "import os, socket; socket.create_server(('', int(os.environ['LLMBX_MASTER_PORT']))).detach()"},
    ),
    "a port in use": Failure(
        "Address already in use", 1, step={"1": "import socket; own = socket.create_server(('127.0.0.1', 0)); socket.create_server(own.getsockname())"}, only=(0,)
    ),
    "a module that is missing on one node": Failure("No module named 'fancy_kernels'", 1, start={"1": "import fancy_kernels"}, start_timeout_s=10),
    "a file that is missing on one node": Failure(
        "FileNotFoundError: .*/scratch/vocab.json", 1, step={"1": "open('/scratch/vocab.json')"}, only=(0,)
    ),
    "a hang": Failure("[Tt]imed out waiting", None, None, step={"1": WAIT}, timeout_s=4, world=3, doubt="no line says which", infrastructure=None, patient=False),
    "a stopped rank that a barrier names": Failure(
        r"Rank 1\b.* failed to pass monitoredBarrier", 1, step={"0": BARRIER, "1": STOP, "2": BARRIER}, world=3, infrastructure=None, patient=False
    ),
    "a stopped rank": Failure("[Tt]imed out waiting", None, None, step={"1": STOP}, timeout_s=4, doubt="no line says which", infrastructure=None, patient=False),
    "a worker of the data loader that raises": Failure(
        "ValueError: (Caught|sample 88213)", 1, step={"1": WORKER.format("raise ValueError('sample 88213 has 4097 tokens')")}, only=(0,)
    ),
    "a worker of the data loader that is killed": Failure(
        r"DataLoader worker \(pid.*killed", 1, step={"1": WORKER.format("os.kill(os.getpid(), signal.SIGKILL)")}, only=(0,)
    ),
    "collectives of different sizes": Failure(
        "enforce fail|Error", 1, step={"0": "import torch; torch.distributed.all_reduce(torch.zeros(9))", "1": "import torch; torch.distributed.all_reduce(torch.zeros(700))"}
    ),
    "a lost node": Failure("[Nn]ode", None, status="node_fail", outside="lose", infrastructure=True),
    "the time limit": Failure("TIMEOUT|TIME LIMIT", None, status="timeout", outside="limit", infrastructure=False),
    "a cancelled job": Failure("CANCELLED", None, status="cancelled", outside="cancel", infrastructure=False),
}
