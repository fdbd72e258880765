"""Ranks that do not make the same calls: who called what, and what the last common call was."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from llmbx_nccltrace.cli import command
from llmbx_nccltrace.report import Mismatch, Report
from llmbx_nccltrace.sections import section

from .lines import coll, opened

Read = Callable[..., Report]
Calls = list[tuple[str, int]]


def where(rank: int) -> dict[str, Any]:
    """Host, process and address of a rank."""
    return {"host": f"node{rank // 2}", "pid": 100 + rank, "comm": f"0x5{rank:x}"}


def log(calls: list[Calls], first: int = 0, **more: Any) -> list[str]:
    """Return the log of one communicator in which rank n made calls[n]: (operation, count)."""
    ranks = len(calls)
    lines = [opened(rank, ranks, **where(rank)) for rank in range(ranks)]
    for place in range(max(map(len, calls))):
        for rank, some in enumerate(calls):
            if place < len(some):
                op, count = some[place]
                lines.append(coll(op, count=count, number=first + place, nranks=ranks, **where(rank), **more))
    return lines


SAME: Calls = [("AllReduce", 100), ("AllGather", 7)] * 9


def test_a_rank_that_calls_another_collective(read: Read) -> None:
    after: Calls = [("AllReduce", 5), ("AllReduce", 6)]
    report = read(*log([SAME + after, SAME + after, [*SAME, ("AllGather", 3), ("AllReduce", 6)], SAME + after]))
    assert report.mismatches == (
        Mismatch(communicator="0xabc", op_count=18, ranks=(2,), collective="AllGather", majority="AllReduce",
                 kind="collective"),
    )  # fmt: skip
    (one,) = report.divergences
    assert (one.last_common_op_count, one.nranks, one.stopped) == (17, 4, ())
    assert [(at.op_count, at.op, at.count, at.ranks) for at in one.calls] == [
        (17, "AllGather", 7, (0, 1, 2, 3)), (18, "AllGather", 3, (2,)), (18, "AllReduce", 5, (0, 1, 3)),
        (19, "AllReduce", 6, (0, 1, 2, 3)),
    ]  # fmt: skip
    assert report.warnings == (
        "rank 2 (node1, pid 102) called AllGather at opCount 12 of communicator 0xabc of 4 ranks, most ranks AllReduce "
        "(2: AllGather of 3 bfloat16; 0-1, 3: AllReduce of 5 bfloat16); the last common call is opCount 11",
    )


def test_a_rank_with_another_count(read: Read) -> None:
    report = read(*log([[*SAME, ("AllReduce", 5)]] * 3 + [[*SAME, ("AllReduce", 4)]]))
    (found,) = report.mismatches
    assert (found.ranks, found.kind, found.op_count) == ((3,), "count", 18)
    assert (found.collective, found.majority) == ("AllReduce count 4", "AllReduce count 5")


def test_another_root_is_another_collective(read: Read) -> None:
    lines = log([[("Broadcast", 5)]] * 3)
    report = read(*lines[:-1], lines[-1].replace("root 0", "root 2"))
    (found,) = report.mismatches
    assert (found.ranks, found.kind) == ((2,), "collective")
    assert (found.collective, found.majority) == ("Broadcast root 2", "Broadcast root 0")


def test_calls_in_another_order_are_a_mismatch_although_all_counts_agree(read: Read) -> None:
    report = read(
        *log([[*SAME, ("AllReduce", 5), ("AllGather", 3)]] * 3 + [[*SAME, ("AllGather", 3), ("AllReduce", 5)]])
    )
    assert report.lagging == ()
    assert [(m.ranks, m.op_count, m.collective) for m in report.mismatches] == [((3,), 18, "AllGather")]


def test_without_a_majority_each_call_is_named(read: Read) -> None:
    report = read(*log([[("AllReduce", 5)], [("AllGather", 5)]]))
    assert [(m.ranks, m.collective, m.majority) for m in report.mismatches] == [
        ((0,), "AllReduce", None), ((1,), "AllGather", None),
    ]  # fmt: skip
    assert report.divergences[0].last_common_op_count is None


def test_a_rank_that_stopped_is_no_mismatch(read: Read) -> None:
    more: Calls = [("AllReduce", 5)] * 3
    report = read(*log([SAME + more, SAME + more, SAME + more[:2], SAME]))
    assert report.mismatches == ()
    (one,) = report.divergences
    assert [(s.ranks, s.op_count, s.peers_op_count) for s in one.stopped] == [((3,), 17, 20), ((2,), 19, 20)]
    assert report.warnings[0].startswith("rank 3 (node1, pid 103) made no call after opCount 11 on communicator 0xabc")
    assert len(report.warnings) == 2


def test_a_rank_that_never_called(read: Read) -> None:
    (warning,) = read(*log([SAME, SAME, []])).warnings
    assert warning.startswith("rank 2 (node1, pid 102) made no call on communicator")


def test_the_rank_that_others_wait_for_comes_first(read: Read) -> None:
    """Rank 1 waits for 0 in the pair, so it misses in the world, too; only rank 0 waits for nobody."""
    lines = []
    for rank in range(4):
        at = {"pid": 100 + rank}
        lines += [opened(rank, 4, comm="0xa", identity="0xaa", **at)]
        lines += [opened(rank % 2, 2, comm="0xb", identity=f"0xb{rank // 2}", **at)]
        lines += [coll(comm="0xa", nranks=4, number=n, **at) for n in range(2 if rank < 2 else 3)]
        lines += [coll(comm="0xb", nranks=2, number=n, **at) for n in range(4 if rank == 0 else 5)]
    report = read(*lines)
    assert [(one.communicator, [s.ranks for s in one.stopped]) for one in report.divergences] == [
        ("0xb0", [(0,)]), ("0xaa", [(0, 1)]),
    ]  # fmt: skip


def test_ranks_of_a_small_communicator_are_those_of_the_run(read: Read) -> None:
    lines = []
    for rank in range(6):
        at = {"pid": 100 + rank}
        lines += [opened(rank, 6, comm="0xa", identity="0xaa", **at)]
        lines += [opened(rank % 3, 3, comm="0xb", identity=f"0xb{rank // 3}", **at)]
        lines += [coll("AllGather" if rank == 4 else "AllReduce", comm="0xb", nranks=3, number=0, **at)]
    (found,) = read(*lines).mismatches
    assert (found.communicator, found.ranks) == ("0xb1", (4,))


def test_sends_and_receives_differ_between_ranks(read: Read) -> None:
    """They increase opCount, so the collectives of sound ranks have different ones."""
    lines = [opened(rank, 3, **where(rank)) for rank in range(3)]
    for rank in range(3):
        numbers = iter(range(100))
        for _ in range(4):
            if rank != 1:
                lines.append(coll("Send", number=next(numbers), nranks=3, **where(rank)))
            lines += [coll("AllReduce", number=next(numbers), nranks=3, **where(rank))]
    assert read(*lines).divergences == ()
    odd = coll("AllGather", number=99, nranks=3, **where(1))
    others = [coll("AllReduce", number=99, nranks=3, **where(rank)) for rank in (0, 2)]
    assert [(m.ranks, m.collective) for m in read(*lines, odd, *others).mismatches] == [((1,), "AllGather")]


def test_the_op_count_may_not_change(read: Read) -> None:
    """On one node NCCL does not increase it; then the order of the calls is compared."""
    lines = log([[*SAME, ("AllReduce", 5)]] * 2 + [[*SAME, ("AllGather", 5)]])
    lines = [re.sub("opCount [0-9a-f]+", "opCount 0", line) for line in lines]
    (found,) = read(*lines).mismatches
    assert (found.ranks, found.collective, found.op_count) == ((2,), "AllGather", 0)


@pytest.mark.parametrize("lost", [1, 4, 9])
def test_damaged_lines_are_no_difference(read: Read, lost: int) -> None:
    lines = log([SAME] * 3)
    chance = random.Random(lost)
    for place in chance.sample(range(3, len(lines)), lost):
        lines[place] = lines[place][:120]
    assert read(*lines).divergences == ()


def test_a_log_that_ends_inside_a_line(read: Read) -> None:
    lines = log([SAME] * 3)
    assert read(*lines[:-1], lines[-1][:130]).divergences == ()


def test_a_reused_address_is_compared_alone(read: Read) -> None:
    again = [line.replace("0xabc", "0xdef") for line in log([[("AllReduce", 5)]] * 3)]
    assert read(*log([SAME, SAME, SAME[:4]]), *again).divergences == ()


def test_a_difference_before_the_last_mebibyte_is_found(tmp_path: Path, read: Read) -> None:
    after: Calls = [("AllReduce", n % 7) for n in range(4000)]
    report = read(*log([SAME + after, SAME + after, [*SAME, ("AllGather", 1), *after[:-1]]]))
    assert [(m.ranks, m.op_count) for m in report.mismatches] == [((2,), 18)]
    assert report.divergences[0].last_common_op_count == 17


@pytest.mark.parametrize("name", ["rank{}.log", "rank{}.log.gz"])
def test_one_file_for_each_rank(tmp_path: Path, name: str) -> None:
    import gzip

    lines = log([[*SAME, ("AllReduce", 5)]] * 2 + [[*SAME, ("AllReduce", 4)]])
    for rank in range(3):
        text = "".join(line + "\n" for line in lines if f":{100 + rank}:" in line).encode()
        path = tmp_path / name.format(rank)
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    for engine in ("native", "python"):
        done = CliRunner().invoke(command, [str(tmp_path), "--format", "json", "--engine", engine])
        assert json.loads(done.stdout)["mismatches"] == [
            {"communicator": "0xabc", "op_count": 18, "ranks": [2], "collective": "AllReduce count 4",
             "majority": "AllReduce count 5", "kind": "count"},
        ]  # fmt: skip


def test_without_init_lines_the_ranks_are_unknown(read: Read) -> None:
    calls = [coll("AllGather" if pid == 3 else "AllReduce", pid=pid, nranks=3, number=4) for pid in (1, 2, 3)]
    (found,) = read(*calls).mismatches
    assert (found.communicator, found.ranks, found.collective) == (None, (None,), "AllGather")
    assert "node1, pid 3 called AllGather" in read(*calls).warnings[0]


def test_a_report_has_the_calls_where_ranks_differ(read: Read) -> None:
    page = section(read(*log([SAME, SAME, [*SAME[:-1], ("AllReduce", 7)]])))
    table = next(table for table in page.tables if table.title == "calls where ranks differ")
    assert ("0xabc", "11", "AllReduce", "bfloat16", "7", "0", "2") in table.rows
    assert page.warnings[0].startswith("rank 2 (node1, pid 102) called AllReduce at opCount 11")
