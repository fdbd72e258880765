"""Both engines agree with a simple parser, for any block and chunk boundaries and any damage to lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from llmbx_nccltrace.counts import LogCounts
from llmbx_nccltrace.definitions import DATATYPES

from .lines import coll, head, message, opened, oracle

Count = Callable[..., LogCounts]

ADDRESSES = st.sampled_from(["0x55a0", "0x7ffb4713c200", "(nil)", "0x5555630c58b0"])
LABELS = [
    "", "3: ", " 12: ", "[2026-01-02 03:04:05] ", "2026-01-02 03:04:05,123 ", "[default3]: ", "[default3]:", "\x1b[0m",
    "[1,26]<stdout>:", "(Worker pid=615, ip=10.7.7.6) ", "10.3.35.83: ", "[0] ", "a:b:", "x:12:", "\x01",
    "0x5: ", "n-1: ",
]  # fmt: skip
COLLS = st.builds(
    coll,
    st.sampled_from(
        ["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Send", "Recv", "AllToAllPivot", "AlltoAll", "Gather"]
    ),
    host=st.sampled_from(["node1", "node2", "dgx-01", "ip-10-0-0-1", None]),
    pid=st.sampled_from([7, 4711, 4712, 4194304]),
    dev=st.integers(0, 15),
    count=st.integers(0, 10**7) | st.integers(0, 10**13),
    dtype=st.integers(0, 11),
    comm=ADDRESSES,
    nranks=st.integers(1, 4096),
    number=st.integers(0, 1 << 40),
    stream=ADDRESSES,
    send=ADDRESSES,
    label=st.sampled_from(LABELS),
    tail=st.sampled_from(["", " task 3 globalrank 7", "\r"]),
    acc=st.sampled_from(["", "acc (nil) ", "acc 0x7f10 "]),
)
OTHERS = st.one_of(
    st.just(""),
    st.just(" iteration       50/      50 | lm loss: 7.1E+00 |"),
    st.builds(lambda n: head() + f"Channel {n:02}/0 : 0[0] -> 1[1] via P2P/CUMEM/read", st.integers(0, 3)),
    st.builds(opened, st.integers(0, 7), st.just(8), comm=ADDRESSES, identity=st.sampled_from(["0xa", "0xb"])),
    st.just(head() + "AllReduce: 1024 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..7}"),
    st.just("node1:4711:4720 [0] misc/socket.cc:50 NCCL WARN connection refused"),
    st.text("abc :[]0x\t", max_size=30),
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A log of intact lines, truncated lines, and lines interleaved with other output."""
    lines = draw(st.lists(st.one_of(COLLS, OTHERS), max_size=20))
    for _ in range(draw(st.integers(0, 4)) if lines else 0):
        place = draw(st.integers(0, len(lines) - 1))
        line, other = lines[place], draw(COLLS)
        at, to = sorted((draw(st.integers(0, len(line))), draw(st.integers(0, len(line)))))
        lines[place] = draw(st.sampled_from([line[:at], line[at:], line[:at] + line[to:], line[:at] + other + line[at:],
                                             line[:at] + other[:to], line[at:to] + other, line + other]))  # fmt: skip
    return "\n".join(lines) + draw(st.sampled_from(["\n", ""]))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=damaged(), block=st.integers(400, 1500), cuts=st.lists(st.integers(1, 4000), max_size=3))
@example(text=coll()[:150] + coll(host="node2") + "\n", block=400, cuts=[])
@example(text=coll() + "\n" + coll(count=5), block=400, cuts=[10])
@example(text="node1:4:4 [0] a.cc:1 NCCL WARN refused" + coll() + "\n", block=400, cuts=[])
@example(text="node1:4:4 [0] a.cc:1 NCCL WARN " + coll(host=None) + "\n", block=400, cuts=[])
@example(text="node1:4711:4720 [0] misc/socket.cc:50 NCCL WARN " + coll()[17:] + "\n", block=400, cuts=[])
@example(text=head() + "\n" + head().replace("INFO", "WARN") + coll() + "\n", block=400, cuts=[])
@example(text="[0] NCCL WARN " + coll() + "\n" + "[0] a.cc:1 NCCL WARN refused " + coll() + "\n", block=400, cuts=[])
@example(text="[0] NCCL INFO Using network IB " + coll() + "\n", block=400, cuts=[])
@example(text=coll("AllGather", count=10**13, nranks=9_999_999) + "\n", block=400, cuts=[])
@example(
    text=" NCCL INFO x " + coll() + "\n NCCL INFO [rank3] Watchdog caught collective operation timeout\n",
    block=400,
    cuts=[100],
)
@example(
    text="".join(head() + text + "\n" for text in ("a", "[3] " + coll()[len(head()) :], "b")), block=400, cuts=[20]
)
@example(text=coll(nranks=100).partition(" stream")[0] + coll(host="node2") + "\n", block=400, cuts=[])
@example(text="node1:4:4 [0] a.cc:1 NCCL WARN x [3]node2:5:5 [0] NCCL INFO y\n", block=400, cuts=[])
@example(text=coll()[35:60] + " " + coll(host="node2") + "\n", block=400, cuts=[])
@example(text="\n".join([coll(), opened(0, 8), coll(), opened(0, 4, identity="0xb"), coll()]), block=400, cuts=[250])
def test_engines_agree_with_a_simple_parser(
    count: Count, tmp_path: Path, text: str, block: int, cuts: list[int]
) -> None:
    path = tmp_path / "log"
    path.write_bytes(text.encode())
    sizes, cut, lines = oracle(text)
    native, python = count(path, "native"), count(path, "python")
    assert python.sizes == sizes
    assert python.cut.total() == cut
    assert python.lines == lines
    assert python.volume == sum(message(*size) * calls for size, calls in sizes.items() if size[1] < 12)
    assert native == python
    longest = max((len(line) for line in text.encode().split(b"\n")), default=0)
    small = max(block, longest + 1)
    for engine in ("native", "python"):
        assert count(path, engine, small, tuple(cuts)) == python


def test_whole_lines_are_counted_by_caller(count: Count, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(coll(pid=pid, comm=f"0x{comm}") + "\n" for pid in (1, 2) for comm in "aabbab"))
    for engine in ("native", "python"):
        callers = count(path, engine).callers
        assert {caller: epochs[-1].calls for caller, epochs in callers.items()} == {
            (b"node1:%d" % pid, comm, 8): Counter({"AllReduce": 3}) for pid in (1, 2) for comm in (10, 11)
        }


def test_more_sizes_and_callers_than_the_scanners_tables_hold(count: Count, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as out:
        for n in range(34_000):
            out.write(coll(count=n, comm=f"0x{n % 15_000 + 1:x}", op=f"Op{n % 20}") + "\n")
    native, python = count(path, "native"), count(path, "python")
    assert native == python
    assert len(python.sizes) > 32_768 and len(python.callers) == 15_000


def test_a_line_longer_than_a_block_is_skipped(count: Count, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join([coll(), "x" * 5000, coll(), coll() + "y" * 1000, coll()]))
    for engine in ("native", "python"):
        for cuts in ((), (300,), (2000, 2500), (5300,)):
            counts = count(path, engine, 500, cuts)
            assert (counts.calls, counts.lines, counts.long_lines) == (3, 5, 2), (engine, cuts)


@pytest.mark.parametrize("size", [0, 1, 30])
def test_a_nearly_empty_log(count: Count, tmp_path: Path, size: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\n" * size)
    for engine in ("native", "python"):
        assert count(path, engine) == LogCounts(lines=size)


def test_every_data_type_has_a_size(count: Count, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(coll(dtype=number, count=3) + "\n" for number in range(len(DATATYPES))))
    for engine in ("native", "python"):
        assert count(path, engine).volume == 3 * (1 + 1 + 4 + 4 + 8 + 8 + 2 + 4 + 8 + 2 + 1 + 1)


def test_a_line_beyond_64_kib_is_cut_and_the_others_are_counted(count: Count, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join([coll(), "y" * 70_000 + coll(), coll() + "z" * 70_000, coll()]))
    native, python = count(path, "native"), count(path, "python")
    assert native == python
    assert (python.calls, python.lines, python.cut_lines) == (3, 4, 2)
