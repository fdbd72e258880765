"""First use of a type by several threads at once, which crashes the process (SIGSEGV) with msgspec alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import msgspec
import pytest

from llmbx import codec
from llmbx.model import RunSpec

RACE = """
import msgspec, sys, threading
from msgspec import defstruct

if sys.argv[1] == "codec":
    from llmbx.codec import convert, decode
else:
    def decode(data, kind): return msgspec.json.decode(data, type=kind)
    def convert(data, kind): return msgspec.convert(data, kind)

sys.setswitchinterval(1e-6)
THREADS, ROUNDS, WIDTH = 4, 300, 30
kinds = []
for number in range(ROUNDS):
    inner = defstruct(f"Inner{number}", [(f"f{i}", int | str | None) for i in range(WIDTH)])
    kinds.append(defstruct(f"Outer{number}", [(f"g{i}", inner) for i in range(4)]))
plain = {f"g{i}": {f"f{j}": j for j in range(WIDTH)} for i in range(4)}
text = msgspec.json.encode(plain)
gate = threading.Barrier(THREADS)
right = []

def use(me):
    for kind in kinds:
        gate.wait()
        found = decode(text, kind) if me % 2 else convert(plain, kind)
        right.append(found.g3.f29 == 29)

threads = [threading.Thread(target=use, args=(me,)) for me in range(THREADS)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(right), all(right))
"""


def race(how: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", RACE, how]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("attempt", range(3))
def test_types_are_safe_to_use_from_several_threads_at_first(attempt: int) -> None:
    done = race("codec")
    assert (done.returncode, done.stdout.split()) == (0, ["1200", "True"]), done.stderr


SPEC_RACE = """
import sys, threading
from llmbx.codec import decode
from llmbx.model import RunSpec

data = sys.stdin.buffer.read()
sys.setswitchinterval(1e-6)
gate = threading.Barrier(4)

def use():
    gate.wait()
    decode(data, RunSpec)

threads = [threading.Thread(target=use) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_fresh_processes_survive_four_threads_that_read_a_record_first(make_spec: Callable[..., RunSpec]) -> None:
    data = msgspec.json.encode(make_spec())
    codes = [
        subprocess.run([sys.executable, "-c", SPEC_RACE], input=data, timeout=120, check=False).returncode
        for _ in range(20)
    ]
    assert codes == [0] * 20


def test_one_decoder_serves_every_call(make_spec: Callable[..., RunSpec]) -> None:
    assert codec.decoder(RunSpec) is codec.decoder(RunSpec)
    assert codec.decode(msgspec.json.encode(make_spec()), RunSpec) == make_spec()


def test_a_value_of_another_type_is_refused() -> None:
    for wrong in (lambda: codec.decode(b'["a", 1]', list[str]), lambda: codec.validator(int)("1")):
        with pytest.raises(msgspec.ValidationError, match="Expected"):
            wrong()
