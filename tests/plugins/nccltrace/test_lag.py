"""Lagging ranks, errors, and the processes that they are attributed to."""

from __future__ import annotations

from collections.abc import Callable

from llmbx_nccltrace.report import Report

from .lines import coll, head, opened

Read = Callable[..., Report]


def world(calls: list[int], op: str = "AllReduce") -> list[str]:
    """Return a log in which rank n of one communicator called `op` calls[n] times."""
    lines = []
    for rank, times in enumerate(calls):
        where = {"host": f"node{rank // 2}", "pid": 100 + rank, "comm": f"0x5{rank}"}
        lines += [opened(rank, len(calls), **where)]  # type: ignore[arg-type]
        lines += [coll(op, nranks=len(calls), **where)] * times  # type: ignore[arg-type]
    return lines


def test_the_rank_with_fewer_calls_is_the_suspect(read: Read) -> None:
    report = read(*world([7, 7, 6, 7]))
    assert report.lagging is not None
    (lag,) = report.lagging
    assert (lag.communicator, lag.op, lag.rank, lag.host, lag.pid, lag.calls, lag.peers) == (
        "0xabc", "AllReduce", 2, "node1", 102, 6, 7,
    )  # fmt: skip
    (warning,) = report.warnings
    assert "rank 2 (node1, pid 102) made 6 AllReduce calls" in warning and "a peer made 7" in warning


def test_a_rank_that_called_something_else_lags_in_what_the_others_called(read: Read) -> None:
    where = {"host": "node1", "pid": 102, "comm": "0x52", "nranks": 4}
    report = read(*world([7, 7, 6, 7]), coll("AllGather", **where))  # type: ignore[arg-type]
    assert {(lag.rank, lag.op) for lag in report.lagging or ()} == {
        (2, "AllReduce"), (0, "AllGather"), (1, "AllGather"), (3, "AllGather"),
    }  # fmt: skip


def test_a_rank_without_any_call_lags(read: Read) -> None:
    report = read(*world([1, 1, 0, 1]))
    assert [(lag.rank, lag.calls) for lag in report.lagging or ()] == [(2, 0)]


def test_equal_ranks_do_not_lag_and_neither_do_pipeline_neighbours(read: Read) -> None:
    assert read(*world([7, 7, 7, 7])).lagging == ()
    assert read(*world([7, 14, 14, 7], "Send")).lagging == ()
    assert read(*world([7, 7])).warnings == ()


def test_truncated_lines_explain_a_difference(read: Read) -> None:
    cut = coll(host="node1", pid=102, comm="0x52", nranks=4)[:100]
    assert read(*world([7, 7, 6, 7]), cut).lagging == ()
    assert len(read(*world([7, 7, 5, 7]), cut).lagging or ()) == 1


def test_without_init_lines_ranks_are_grouped_only_if_that_is_unambiguous(read: Read) -> None:
    calls = [coll(pid=pid, nranks=3) for pid in (1, 2, 3)]
    report = read(*calls, *calls[:2])
    assert [(lag.pid, lag.calls, lag.peers) for lag in report.lagging or ()] == [(3, 1, 2)]
    assert read(*calls[:2], calls[0]).lagging is None
    assert read(coll(nranks=2), *[coll(nranks=2, comm="0x9")] * 2).lagging is None
    assert read(*calls, *(coll(pid=pid, nranks=3, comm="0x9") for pid in (1, 2, 3, 3))).lagging is None


def test_the_rank_in_a_small_communicator_is_reported_as_the_global_rank(read: Read) -> None:
    lines = []
    for rank in range(4):
        where = {"pid": 100 + rank}
        lines.append(opened(rank, 4, comm="0xa", identity="0xaa", **where))
        lines.append(opened(rank % 2, 2, comm="0xb", identity=f"0xb{rank // 2}", **where))
        lines += [coll(comm="0xb", nranks=2, **where)] * (2 if rank == 3 else 3)
    report = read(*lines)
    assert [(lag.rank, lag.global_rank) for lag in report.lagging or ()] == [(1, 3)]
    assert "rank 3 (node1, pid 103)" in report.warnings[0] and "(as rank 1)" in report.warnings[0]


def test_errors_name_rank_and_host_once(read: Read) -> None:
    said = "node1:102:111 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> failed"
    newer = "[2026-01-02 03:04:05] node0:100:109 [0] init.cc:99 (ncclInit) NCCL WARN Cuda failure 'out of memory'"
    report = read(*world([1, 1, 1, 1]), said, "", newer, said)
    assert [(e.rank, e.host, e.pid, e.times) for e in report.errors] == [(2, "node1", 102, 2), (0, "node0", 100, 1)]
    assert report.errors[0].text == "socketStartConnect: Connect to 10.0.0.2<45763> failed"
    assert "rank 2 (node1, pid 102): socketStartConnect: Connect to 10.0.0.2<45763> failed (2 times)" in report.warnings


def test_a_warning_that_another_process_interrupts(read: Read) -> None:
    """Without its text it is not reported, and the record behind it is counted."""
    report = read("[0] NCCL WARN " + coll(), "[0] a.cc:1 NCCL WARN refused " + coll(), head() + "Using network IB")
    assert [(operation.op, operation.calls) for operation in report.operations] == [("AllReduce", 2)]
    assert [(e.text, e.times) for e in report.errors] == [("refused", 1)]


def test_the_watchdog_of_the_framework_is_an_error(read: Read) -> None:
    report = read(
        coll(), "[rank14]:[E218 04:54:23] [PG ID 12 Rank 0] Timeout at NCCL work: 151, last enqueued NCCL work: 152"
    )
    assert [(e.rank, e.text.startswith("Timeout at NCCL work: 151")) for e in report.errors] == [(14, True)]


def test_long_lists_of_errors_are_shortened(read: Read) -> None:
    report = read(*[f"node1:{n}:1 [0] a.cc:1 NCCL WARN broken" for n in range(50)])
    assert len(report.errors) == 50
    assert len(report.warnings) < 15 and any("40 more errors" in w for w in report.warnings)


def test_the_rank_of_a_line_without_a_host_comes_from_its_label(read: Read) -> None:
    report = read("12: [4] misc/socket.cc:483 NCCL WARN gone", head() + "Using network IB")
    assert [(e.rank, e.host) for e in report.errors] == [(12, None)]
