"""Properties of real logs that a simple parser gets wrong, with both engines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmbx_nccltrace.report import Operation, Report

from .lines import coll, head, opened

Read = Callable[..., Report]


def only(report: Report) -> Operation:
    """Return the only kind of call in a report."""
    (operation,) = report.operations
    return operation


def test_the_recipes_own_line_without_a_host(read: Read) -> None:
    line = (
        "[7] NCCL INFO AllReduce: opCount 2 sendbuff 0x7ffb4713c200 recvbuff 0x7ffb4713c200 count 1 datatype 1 op 0 "
        "root 0 comm 0x55556b100660 [nranks=128] stream 0x5555630c58b0"
    )
    operation = only(read(line))
    assert operation == Operation(op="AllReduce", datatype="uint8", nranks=128, count=1, message_bytes=1, calls=1)


@pytest.mark.parametrize(
    ("op", "dtype", "name", "size"),
    [
        ("AllReduce", 7, "float32", 4000),
        ("Broadcast", 1, "uint8", 1000),
        ("Reduce", 9, "bfloat16", 2000),
        ("AllGather", 9, "bfloat16", 2000 * 16),
        ("ReduceScatter", 10, "float8e4m3", 1000 * 16),
        ("AlltoAll", 9, "bfloat16", 2000 * 16),
        ("AllToAll", 9, "bfloat16", 2000 * 16),
        ("Gather", 7, "float32", 4000 * 16),
        ("Scatter", 1, "uint8", 1000 * 16),
        ("Send", 8, "float64", 8000),
        ("Recv", 5, "uint64", 8000),
    ],
)
def test_a_message_is_whole(read: Read, op: str, dtype: int, name: str, size: int) -> None:
    operation = only(read(coll(op, dtype=dtype, count=1000, nranks=16)))
    assert (operation.datatype, operation.message_bytes) == (name, size)


def test_an_unknown_data_type_has_no_size(read: Read) -> None:
    report = read(coll(dtype=12), coll(dtype=7))
    assert {o.datatype: o.message_bytes for o in report.operations} == {"12": None, "float32": 4096}
    assert report.totals[0].message_bytes is None and report.totals[0].calls == 2
    assert any("data type 12 is unknown" in w for w in report.warnings)


def test_op_count_is_hexadecimal_and_may_stay_zero(read: Read) -> None:
    report = read(coll(number=0xDEADBEEF), coll(number=0), coll(number=0), coll(number=0))
    assert only(report).calls == 4


def test_rccl_adds_fields_and_time_stamps_go_first(read: Read) -> None:
    report = read(
        coll(tail=" task 0 globalrank 3"),
        coll(label="[2026-01-02 03:04:05] "),
        coll(label="[2026-01-02 03:04:05.123456] ", tail=" task 12 globalrank 15"),
        coll(host=None, label="[2026-01-02 03:04:06] "),
    )
    assert only(report).calls == 4
    assert report.cut == 0


def test_rccl_adds_a_pointer_after_the_receive_buffer(read: Read) -> None:
    """`acc`, since RCCL 2.27; a line that ends inside it is truncated."""
    line = coll(acc="acc (nil) ", tail=" task 0 globalrank 3")
    report = read(line, coll(acc="acc 0x7f0b00000000 "), coll(), line[: line.index("acc") + 8])
    assert (only(report).calls, report.cut) == (3, 1)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NCCL version 2.21.5+cuda12.4", "NCCL version 2.21.5+cuda12.4"),
        (head() + "NCCL version 2.27.7+cuda13.0", "NCCL version 2.27.7+cuda13.0"),
        (head() + "RCCL version : 2.22.3-HEAD:9c1c3ad", "RCCL version 2.22.3-HEAD:9c1c3ad"),
        ("RCCL version 2.18.3+hip6.0 HEAD:2f6d59e+", "RCCL version 2.18.3+hip6.0"),
    ],
)
def test_the_version_with_and_without_a_header(read: Read, line: str, version: str) -> None:
    report = read(line, coll())
    assert report.versions == (version,) and report.warnings == ()


def test_two_versions_in_one_job_are_a_warning_with_their_hosts(read: Read) -> None:
    versions = [head(host) + f"NCCL version {v}" for host, v in (("n1", "2.27.7"), ("n2", "2.26.2"), ("n3", "2.27.7"))]
    (warning,) = read(*versions, coll()).warnings
    assert warning == "versions differ: NCCL version 2.26.2 on n2; NCCL version 2.27.7 on n1, n3"
    assert read("NCCL version 2.27.7", head() + "RCCL version 2.27.7", coll()).warnings == ()


def test_null_pointers_are_printed_as_nil(read: Read) -> None:
    assert only(read(coll(stream="(nil)"), coll("AllReduce", send="(nil)", stream="(nil)"))).calls == 2


@pytest.mark.parametrize(
    "label",
    ["3: ", "  0: ", "[default7]: ", "[1,26]<stdout>:", "(Worker pid=615, ip=10.72.7.6) ", "10.3.35.83: ", "[0] "],
)
def test_labels_of_launchers(read: Read, label: str) -> None:
    report = read(coll(label=label), coll(host=None, label=label))
    assert (only(report).calls, report.cut) == (2, 0)


def test_a_rank_tag_inside_the_message(read: Read) -> None:
    report = read("srv01:1:2 [0] NCCL INFO [2] " + coll().partition("NCCL INFO ")[2])
    assert (only(report).calls, report.cut) == (1, 0)


def test_carriage_returns_and_colors(read: Read) -> None:
    report = read(coll() + "\r", "\x1b[32m" + coll() + "\x1b[0m", coll() + "\x1b[0m")
    assert (only(report).calls, report.cut) == (3, 0)


def test_a_truncated_line_counts_if_its_counted_fields_are_intact(read: Read) -> None:
    whole = coll(count=123456, nranks=64)
    needed = whole.index("[nranks=64]") + len("[nranks=64]")
    begun = whole.index(": opCount ") + len(": opCount ")
    for end in range(len(whole)):
        line = whole[:end]
        report = read(line, opened(0, 8))
        assert report.calls == (end >= needed), line
        assert report.cut == (begun <= end < needed), line


def test_the_end_of_a_line_alone_is_not_counted(read: Read) -> None:
    whole = coll()
    for start in range(whole.index(" sendbuff") + 1, len(whole)):
        report = read(whole[start:], opened(0, 8))
        assert (report.calls, report.cut) == (0, 0), whole[start:]


def test_a_record_without_header_is_counted_without_caller(read: Read) -> None:
    whole = coll()
    report = read("NFO " + whole.partition("NCCL INFO ")[2], opened(0, 8))
    assert only(report).calls == 1
    assert report.communicators is not None and report.communicators[0].calls == 0


def test_two_writers_in_one_line(read: Read) -> None:
    first, second = coll(count=5), coll(host="node2", count=7)
    for at in range(first.index("sendbuff"), len(first)):
        report = read(first[:at] + second + first[at:])
        counts = {o.count: o.calls for o in report.operations}
        assert counts.get(7) == 1, first[:at]
        assert counts.get(5, 0) + report.cut == 1, first[:at]


def test_a_host_preceded_by_a_stray_number_is_recognized(read: Read) -> None:
    lines = [opened(rank, 2, host=host) for rank, host in enumerate(("node1", "dgx01"))]
    glued = coll(nranks=2)[:130] + "167" + coll(host="dgx01", nranks=2)
    bitten = coll(nranks=2, stream="0x5555abcd") + coll(host="dgx01", nranks=2)
    report = read(*lines, coll(host="dgx01", nranks=2), glued, bitten, coll(nranks=2), coll(nranks=2))
    assert report.communicators is not None
    (comm,) = report.communicators
    assert (comm.ranks_seen, comm.hosts, comm.calls) == (2, ("dgx01", "node1"), 6)
    assert report.lagging == ()


def test_a_communicator_is_the_same_in_all_processes_despite_different_addresses(read: Read) -> None:
    lines = []
    for rank in range(4):
        where = {"host": f"node{rank // 2}", "pid": 100 + rank, "comm": f"0x5{rank}"}
        lines += [opened(rank, 4, identity="0xfeed", **where), coll("AllGather", nranks=4, **where)]  # type: ignore[arg-type]
    report = read(*lines)
    assert report.communicators is not None
    (comm,) = report.communicators
    assert (comm.id, comm.nranks, comm.ranks_seen, comm.calls) == ("0xfeed", 4, 4, 4)
    assert comm.hosts == ("node0", "node1")
    assert comm.message_bytes == 4 * 1024 * 2 * 4


def test_one_address_in_two_processes_is_two_communicators(read: Read) -> None:
    both = [opened(0, 2, pid=1, identity="0xa"), opened(0, 2, pid=2, identity="0xb")]
    report = read(*both, coll(pid=1, nranks=2), coll(pid=1, nranks=2), coll(pid=2, nranks=2))
    assert {c.id: c.calls for c in report.communicators or ()} == {"0xa": 2, "0xb": 1}


def test_a_reused_address_is_another_communicator(read: Read) -> None:
    report = read(opened(0, 8, identity="0xa"), coll(), coll(), opened(0, 8, identity="0xb"), coll())
    assert {c.id: c.calls for c in report.communicators or ()} == {"0xa": 2, "0xb": 1}


def test_calls_before_any_init_line_belong_to_no_named_communicator(read: Read) -> None:
    report = read(coll(), opened(0, 8, identity="0xb"), coll())
    assert {c.id: c.calls for c in report.communicators or ()} == {"0xb": 1}
    assert report.calls == 2


@pytest.mark.parametrize("branch", ["color 1 key 0", "splitCount 1 color 1 key 0", "childCount 1 color 1 key 0"])
def test_split_communicators_are_joined_by_parent_and_color(read: Read, branch: str) -> None:
    lines = []
    for rank in range(4):
        pid = 100 + rank
        color = branch.replace("color 1", f"color {rank % 2}")
        lines += [
            opened(rank, 4, pid=pid, comm=f"0xa{rank}", identity="0xfeed"),
            f"{head(pid=pid)}ncclCommSplit comm 0xb{rank} rank {rank // 2} nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 "
            f"parent 0xa{rank} {color} - Init COMPLETE",
            coll(pid=pid, comm=f"0xb{rank}", nranks=2),
        ]
    found = {c.id: (c.ranks_seen, c.calls) for c in read(*lines).communicators or ()}
    number = "0" if branch.startswith("color") else "1"
    assert found == {"0xfeed": (4, 0), f"0xfeed/{number}.0": (2, 2), f"0xfeed/{number}.1": (2, 2)}


def test_each_process_and_what_it_called(read: Read) -> None:
    lines = [
        opened(1, 2, host="node2", pid=7),
        opened(0, 2, pid=9),
        coll(pid=9, nranks=2),
        "4: " + coll(host=None, nranks=2),
    ]
    assert [(r.rank, r.host, r.pid, r.calls, r.message_bytes) for r in read(*lines, coll(pid=9, nranks=4)).ranks] == [
        (0, "node1", 9, 2, 4096), (1, "node2", 7, 0, 0), (4, None, None, 1, 2048),
    ]  # fmt: skip


def test_unknown_fields_are_null(read: Read) -> None:
    report = read(coll())
    assert report.communicators is None
    assert report.transport is None
    assert report.tuning is None
    assert report.steps is None
    assert report.lagging is None
    assert report.errors == ()


def test_lines_are_all_lines(read: Read) -> None:
    assert read(coll(), "", "# something else", coll(), "").lines == 5


def test_a_log_of_init_lines_reports_the_missing_subsystem(read: Read) -> None:
    report = read(opened(0, 8))
    assert report.operations == ()
    assert any("NCCL_DEBUG_SUBSYS must include COLL" in w for w in report.warnings)


@pytest.mark.parametrize(
    ("line", "op", "algorithm", "protocol"),
    [
        ("1048576 Bytes -> Algo 1 proto 2 time 41.5", None, "RING", "SIMPLE"),
        ("AllReduce: 1048576 Bytes -> Algo 0 proto 0 time 41.5", "AllReduce", "TREE", "LL"),
        ("AllReduce: 1048576 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}", "AllReduce", "NVLS", "SIMPLE"),
    ],
)
def test_tuning_lines_of_all_versions(read: Read, line: str, op: str, algorithm: str, protocol: str) -> None:
    report = read(head() + line, *(head() + line.replace("1048576", size) for size in ("4096", "8192")))
    assert report.tuning is not None
    (choice,) = report.tuning
    assert (choice.op, choice.algorithm, choice.protocol) == (op, algorithm, protocol)
    assert (choice.calls, choice.from_bytes, choice.to_bytes) == (3, 4096, 1048576)


def test_sizes_are_counted_by_power_of_two(read: Read) -> None:
    report = read(*[coll(dtype=1, count=count) for count in (0, 1, 2, 3, 4, 1023, 1024)])
    assert [(s.from_bytes, s.to_bytes, s.calls, s.message_bytes) for s in report.sizes] == [
        (0, 1, 1, 0), (1, 2, 1, 1), (2, 4, 2, 5), (4, 8, 1, 4), (512, 1024, 1, 1023), (1024, 2048, 1, 1024),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "factor"),
    [
        ("AllReduce", 1.5),
        ("AllGather", 0.75),
        ("ReduceScatter", 0.75),
        ("Broadcast", 1),
        ("Send", 1),
        ("Recv", 0),
        ("AlltoAll", 0.75),
        ("Gather", 0.75),
        ("Scatter", 0.75),
    ],
)
def test_bus_bytes_follow_the_convention_of_nccl_tests(read: Read, op: str, factor: float) -> None:
    (total,) = read(coll(op, nranks=4), coll(op, nranks=4)).totals
    assert total.message_bytes is not None
    assert total.bus_bytes == pytest.approx(factor * total.message_bytes)


def test_bus_bytes_of_an_unknown_operation_are_unknown(read: Read) -> None:
    (total,) = read(coll("Teleport", nranks=4)).totals
    assert total.bus_bytes is None and total.message_bytes == 2048
