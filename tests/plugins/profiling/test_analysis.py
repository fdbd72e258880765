"""Analysis of generated profiles, compared with sets of nanoseconds, and handling of invalid files."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmbx.errors import InfraError, UsageError
from llmbx_profiling.analysis import analyze as whole
from llmbx_profiling.analysis.analyze import analyze
from llmbx_profiling.analysis.database import open_profile
from llmbx_profiling.analysis.model import Analysis

from .exports import VERSIONS, Export

GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_256x128>(T1::Params)"
SOFTMAX = "void at::native::(anonymous namespace)::softmax<float, int>(float *, float const *, int)"
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
DISPATCH = "void deep_ep::internode::dispatch<false, 8>(int4 *)"
PEER = 10
SHORT = {
    GEMM: "cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_256x128>",
    SOFTMAX: "at::native::softmax",
    ALLREDUCE: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    DISPATCH: "deep_ep::internode::dispatch",
    "peer": "[copy between GPUs]",
}

Row = tuple[str, int, int]
rows = st.lists(
    st.tuples(
        st.sampled_from((GEMM, SOFTMAX, ALLREDUCE, DISPATCH, "copy", "peer")), st.integers(0, 120), st.integers(1, 30)
    ),
    min_size=1,
    max_size=25,
)


def export_of(lanes: list[list[Row]], edges: list[int]) -> Export:
    """Return an export with one process and device per lane, and steps 45, 46 … between `edges` on the CPU.

    Launches are not recorded.
    """
    made = Export()
    for pid, found in enumerate(lanes, 1):
        made.domain(1, "llmbx", pid)
        for number, (start, end) in enumerate(pairwise(edges)):
            made.range(start, end, "step", domain=1, payload=45 + number, pid=pid)
        for name, start, length in found:
            if name in ("copy", "peer"):
                made.copy(start, start + length, PEER if name == "peer" else 1, device=pid - 1, pid=pid)
            else:
                made.kernel(start, start + length, name, device=pid - 1, pid=pid)
    return made


def nanoseconds(found: list[Row], kinds: tuple[str, ...], window: range) -> set[int]:
    return {t for name, start, length in found if name in kinds for t in range(start, start + length)} & set(window)


def ns(seconds: float | None) -> int:
    assert seconds is not None
    return round(seconds * 1e9)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(rows, min_size=1, max_size=3), st.lists(st.integers(1, 40), min_size=2, max_size=4))
def test_times_agree_with_sets_of_nanoseconds(lanes: list[list[Row]], lengths: list[int]) -> None:
    edges = [10 + sum(lengths[:n]) for n in range(len(lengths) + 1)]
    with tempfile.TemporaryDirectory() as folder:
        analysis = analyze([export_of(lanes, edges).write(Path(folder) / "x.sqlite")])
    compute, communication = (GEMM, SOFTMAX), (ALLREDUCE, DISPATCH, "peer")
    for step in analysis.steps:
        assert step.step is not None and (step.rank is None) == (len(lanes) == 1)
        place = step.step - 45
        window = range(edges[place], edges[place + 1])
        found = lanes[step.rank or 0]
        computed, moved = nanoseconds(found, compute, window), nanoseconds(found, communication, window)
        did = nanoseconds(found, (*compute, *communication, "copy"), window)
        assert ns(step.duration_s) == len(window)
        assert (ns(step.busy_s), ns(step.idle_s)) == (len(did), len(window) - len(did))
        assert (ns(step.compute_s), ns(step.communication_s)) == (len(computed), len(moved))
        assert (ns(step.overlapped_s), ns(step.exposed_s)) == (len(computed & moved), len(moved - computed))
    assert len(analysis.steps) == len(lanes) * len(lengths)
    check_kernels(analysis, lanes)
    check_gaps(analysis, lanes, edges)
    check_ceiling(analysis)


def check_kernels(analysis: Analysis, lanes: list[list[Row]]) -> None:
    calls: Counter[str] = Counter()
    total: Counter[str] = Counter()
    exposed: Counter[str] = Counter()
    for found in lanes:
        computed = {t for n, s, length in found if n in (GEMM, SOFTMAX) for t in range(s, s + length)}
        for name, start, length in found:
            if name != "copy":
                short = SHORT[name]
                calls[short] += 1
                total[short] += length
                if name not in (GEMM, SOFTMAX):
                    exposed[short] += len(set(range(start, start + length)) - computed)
    assert {k.name: (k.calls, ns(k.total_s)) for k in analysis.top_kernels} == {n: (calls[n], total[n]) for n in calls}
    assert {c.name: ns(c.exposed_s) for c in analysis.top_collectives} == dict(exposed)


def check_gaps(analysis: Analysis, lanes: list[list[Row]], edges: list[int]) -> None:
    lengths = []
    for found in lanes:
        for start, end in pairwise(edges):
            idle = sorted(set(range(start, end)) - {t for _, s, length in found for t in range(s, s + length)})
            run = 0
            for time in range(start, end + 1):
                if time in idle:
                    run += 1
                elif run:
                    lengths.append(run)
                    run = 0
    assert sorted((ns(gap.duration_s) for gap in analysis.gaps), reverse=True) == sorted(lengths, reverse=True)[:10]


def check_ceiling(analysis: Analysis) -> None:
    numbers = {step.step for step in analysis.steps}
    slowest = [max(s.duration_s for s in analysis.steps if s.step == n) for n in numbers]
    without = [max(s.duration_s - (s.exposed_s or 0) for s in analysis.steps if s.step == n) for n in numbers]
    if sum(without) > 1e-12:
        assert analysis.ceiling is not None
        assert analysis.ceiling.step_s == pytest.approx(sum(slowest) / len(numbers))
        assert analysis.ceiling.speedup == pytest.approx(sum(slowest) / sum(without))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_the_schema_is_read(version: str, tmp_path: Path) -> None:
    made = Export()
    made.domain(1, "llmbx")
    made.range(0, 100, "step", domain=1, payload=45)
    made.range(100, 200, "step", domain=1, payload=46)
    made.kernel(10, 60, "gemm")
    made.kernel(40, 90, "ncclKernel_AllGather_RING_LL_Sum_int8_t")
    made.kernel(120, 150, "gemm")
    made.kernel(180, None, "gemm")
    analysis = analyze([made.write(tmp_path / "p.sqlite", version)])
    first, second = analysis.steps
    assert (first.step, second.step) == ((0, 1) if version == "bare" else (45, 46))
    assert (ns(first.busy_s), ns(first.overlapped_s), ns(first.exposed_s)) == (80, 20, 30)
    assert (ns(second.busy_s), ns(second.compute_s), ns(second.communication_s)) == (30, 30, 0)
    assert analysis.top_collectives[0].operation == "AllGather"
    if version != "bare":
        assert analysis.files[0].product == f"{version}.1"


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("late", [5, 40_000_000])
def test_a_step_on_the_device_begins_with_its_first_kernel(late: int, ordered: bool, tmp_path: Path) -> None:
    """The GPU runs asynchronously, the program may load data before its first call, and rows may be in any order."""
    made = Export()
    scale = max(1, late // 5)
    made.domain(1, "llmbx")
    for number in range(3):
        t = 100 * number * scale
        made.range(t, t + 90 * scale, "step", domain=1, payload=number)
        for k in range(4):
            call = 1000 + 10 * number + k
            made.call(t + late + k, call)
            start = t + 90 * scale + 5_000 * number + 1_000 * k
            made.kernel(start, start + 500, "gemm", call=call)
    if not ordered:
        random.Random(3).shuffle(made.calls)
        random.Random(4).shuffle(made.kernels)
    analysis = analyze([made.write(tmp_path / "p.sqlite")])
    apart = 100 * scale + 5_000
    assert [(ns(s.start_s), ns(s.duration_s), ns(s.busy_s)) for s in analysis.steps] == [
        (90 * scale, apart, 2_000),
        (90 * scale + apart, apart, 2_000),
        (90 * scale + 2 * apart, 3_500, 2_000),
    ]
    assert analysis.notes == ()


def test_each_process_has_the_windows_of_its_own_steps(tmp_path: Path) -> None:
    """Eight processes far apart in time: more edges than are queried individually."""
    made = Export()
    expected = {}
    for pid in range(1, 9):
        made.domain(1, "llmbx", pid)
        for number in range(4):
            t = 10_000_000_000 * number + 700_000_000 * pid
            made.range(t, t + 1_000, "step", domain=1, payload=number, pid=pid)
            made.call(t + 10, 100 * number + 1, pid)
            made.kernel(t + 5_000 + pid, t + 6_000, "gemm", device=pid - 1, pid=pid, call=100 * number + 1)
            expected[pid - 1, number] = t + 5_000 + pid
    analysis = analyze([made.write(tmp_path / "p.sqlite")])
    assert {(s.rank, s.step): ns(s.start_s) for s in analysis.steps} == expected


def test_without_steps_the_whole_capture_is_one_window(tmp_path: Path) -> None:
    made = Export()
    made.kernel(1_000, 2_000, "gemm")
    made.kernel(3_000, 4_000, ALLREDUCE)
    analysis = analyze([made.write(tmp_path / "p.sqlite")])
    (step,) = analysis.steps
    assert (step.step, ns(step.duration_s), ns(step.busy_s), ns(step.exposed_s)) == (None, 3_000, 2_000, 1_000)
    assert analysis.notes == ("no step ranges: the whole capture is analyzed as one",)


def test_steps_of_other_programs_are_recognized(tmp_path: Path) -> None:
    made = Export()
    for number in (7, 8):
        made.range(1_000 * number, 1_000 * number + 999, f"iteration{number}", registered=number == 7)
        made.range(1_000 * number, 1_000 * number + 300, "step_function")
        made.kernel(1_000 * number + 10, 1_000 * number + 20, "gemm")
    analysis = analyze([made.write(tmp_path / "p.sqlite")])
    assert [step.step for step in analysis.steps] == [7, 8]


def test_a_cpu_profile_has_steps_and_ranges_and_no_gpu_times(tmp_path: Path) -> None:
    made = Export()
    made.domain(3, "llmbx")
    made.range(0, 400, "profile", domain=3)
    for number in (45, 46):
        made.range(100 * number, 100 * number + 80, "step", domain=3, payload=number)
        made.range(100 * number, 100 * number + 30, "forward")
    made.range(50, None, "cut off")
    analysis = analyze([made.write(tmp_path / "p.sqlite")])
    assert [(s.step, ns(s.duration_s), s.busy_s, s.exposed_s) for s in analysis.steps] == [
        (45, 80, None, None),
        (46, 80, None, None),
    ]
    assert [(r.domain, r.text, r.calls, ns(r.total_s)) for r in analysis.ranges] == [
        ("llmbx", "profile", 1, 400),
        ("llmbx", "step", 2, 160),
        (None, "forward", 2, 60),
    ]
    assert analysis.ceiling is None and analysis.stragglers is None and analysis.exposed_share is None
    assert analysis.ranks[0].kernels == 0 and analysis.ranks[0].device is None


def test_graphs_traced_as_a_whole_are_only_busy_time(tmp_path: Path) -> None:
    made = Export()
    made.kernel(0, 10, "gemm")
    made.graph(20, 50)
    analysis = analyze([made.write(tmp_path / "p.sqlite", "2025.1")])
    (step,) = analysis.steps
    assert (ns(step.busy_s), ns(step.compute_s), ns(step.idle_s)) == (40, 10, 10)
    assert "CUDA graphs were traced as a whole" in " ".join(analysis.notes)


def test_the_straggler_has_the_shortest_time_in_a_collective(tmp_path: Path) -> None:
    """Three ranks, two collectives per step; rank 2 is 300 ns late in the first, rank 0 100 ns late in the second."""
    for rank, late in enumerate(((0, 100), (0, 0), (300, 0))):
        made = Export()
        made.domain(1, "llmbx")
        for step in range(2):
            t = 10_000 * step
            made.range(t, t + 10_000, "step", domain=1, payload=step)
            made.kernel(t + 1_000 + late[0], t + 2_000, ALLREDUCE)
            made.kernel(t + 4_000 + late[1], t + 5_000, "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL()")
            made.kernel(t + 6_000, t + 6_000 + 10 * rank, "ncclDevKernel_SendRecv()")
        made.write(tmp_path / f"p_rank{rank}.sqlite")
    found = analyze([tmp_path]).stragglers
    assert found is not None
    assert (found.matched, found.unmatched) == (4, 0)
    assert ns(found.transfer_s) == 2 * (700 + 900)
    assert {s.label: (s.last, ns(s.causes_s), ns(s.waits_s)) for s in found.ranks} == {
        "rank 2": (2, 1_200, 200),
        "rank 0": (2, 400, 600),
        "rank 1": (0, 0, 800),
    }
    assert found.ranks[0].label == "rank 2"


def test_collectives_with_different_numbers_of_calls_are_not_matched(tmp_path: Path) -> None:
    for rank in range(2):
        made = Export()
        for k in range(1 + rank):
            made.kernel(1_000 * k, 1_000 * k + 500 + 100 * rank, ALLREDUCE)
        made.kernel(9_000, 9_100 + rank, "ncclDevKernel_AllGather_RING_LL()")
        made.write(tmp_path / f"p_rank{rank}.sqlite")
    found = analyze([tmp_path]).stragglers
    assert found is not None and (found.matched, found.unmatched) == (1, 2)


def test_a_name_that_is_stored_twice_is_one_kernel(tmp_path: Path) -> None:
    made = Export()
    for name in ("gemm", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL()"):
        made.kernel(0, 10, name)
        made.kernel(20, 50, f"{name} again")
    path = made.write(tmp_path / "p.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE StringIds SET value = replace(value, ' again', '')")
    connection.close()
    analysis = analyze([path])
    assert [(k.calls, ns(k.total_s), ns(k.max_s)) for k in analysis.top_kernels] == [(2, 40, 30), (2, 40, 30)]
    assert [(c.calls, ns(c.overlapped_s)) for c in analysis.top_collectives] == [(2, 40)]


def digest(folder: Path) -> dict[str, tuple[str, int]]:
    return {p.name: (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns) for p in folder.iterdir()}


def test_reading_does_not_change_the_file_or_its_folder(tmp_path: Path) -> None:
    made = export_of([[(GEMM, 5, 9), (ALLREDUCE, 8, 9)]], [0, 30])
    made.write(tmp_path / "p.sqlite")
    before = digest(tmp_path)
    (tmp_path / "p.sqlite").chmod(0o444)
    analyze([tmp_path])
    assert digest(tmp_path) == before


def test_not_even_a_journal_is_left_beside_the_file(tmp_path: Path) -> None:
    path = export_of([[(GEMM, 5, 9)]], [0, 30]).write(tmp_path / "p.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    before = digest(tmp_path)
    seen = []
    with open_profile(path) as database:
        database.rows("SELECT id, value FROM StringIds", tuple[int, str])
        seen = [file.name for file in tmp_path.iterdir()]
    assert seen == ["p.sqlite"] and digest(tmp_path) == before


def many(folder: Path) -> Path:
    """Write a profile with lanes of different sizes, so that blocks contain one lane or several."""
    chance = random.Random(7)
    lanes = [
        [
            (chance.choice((GEMM, SOFTMAX, ALLREDUCE, "copy")), chance.randrange(10**6), chance.randrange(1, 400))
            for _ in range(n)
        ]
        for n in (2_000, 500, 3_000, 1, 900)
    ]
    return export_of(lanes, [0, 300_000, 600_000, 1_000_000]).write(folder / "p.sqlite")


def test_several_processes_give_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(3):
        (tmp_path / f"p_rank{rank}.sqlite").write_bytes(many(tmp_path).read_bytes())
    (tmp_path / "p.sqlite").unlink()
    alone = analyze([tmp_path], workers=1)
    assert [rank.label for rank in alone.ranks] == [f"rank {rank} gpu {gpu}" for rank in range(3) for gpu in range(5)]
    monkeypatch.setattr(whole, "PARALLEL_BYTES", 1)
    for workers in (2, 16):
        assert analyze([tmp_path], workers=workers) == alone


@pytest.mark.parametrize("rows", [7, 100, 50_000])
def test_the_result_is_the_same_with_and_without_json(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = many(tmp_path)
    expected = analyze([path])
    monkeypatch.setattr("llmbx_profiling.analysis.database._BLOCK", rows)
    for has_json in (True, False):
        monkeypatch.setattr("llmbx_profiling.analysis.database._has_json", lambda connection, has=has_json: has)
        assert analyze([path]) == expected


def test_rows_in_any_order_give_the_same(tmp_path: Path) -> None:
    lanes = [[(GEMM, 7 * k % 101, 5) for k in range(60)] + [(ALLREDUCE, 11 * k % 103, 9) for k in range(20)]]
    shuffled = [random.Random(1).sample(lanes[0], len(lanes[0]))]
    one = analyze([export_of(lanes, [0, 50, 120]).write(tmp_path / "p.sqlite")])
    assert analyze([export_of(shuffled, [0, 50, 120]).write(tmp_path / "p.sqlite")]) == one


def test_a_report_and_its_export_count_once(tmp_path: Path) -> None:
    made = export_of([[(GEMM, 5, 9)]], [0, 30])
    (tmp_path / "p_rank3.nsys-rep").write_bytes(b"unreadable")
    made.write(tmp_path / "p_rank3.sqlite")
    (rank,) = analyze([tmp_path]).ranks
    assert (rank.rank, rank.file) == (3, str(tmp_path / "p_rank3.sqlite"))


def test_an_export_older_than_its_report_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMBX_NSYS", "/nowhere/nsys")
    old = export_of([[(GEMM, 5, 9)]], [0, 30]).write(tmp_path / "p.sqlite")
    os.utime(old, (1, 1))
    (tmp_path / "p.nsys-rep").write_bytes(b"newer")
    with pytest.raises(InfraError, match=r"reading p.nsys-rep requires nsys"):
        analyze([tmp_path])


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("notes.txt", b"hello", "expected a report"),
        ("p.sqlite", b"hello", "not an SQLite export"),
        ("p.sqlite", b"SQLite format 3\0" + b"\xff" * 5000, "damaged"),
        ("p.qdstrm", b"x", "unfinished report"),
    ],
)
def test_an_invalid_profile_is_a_one_line_error(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises((UsageError, InfraError)) as caught:
        analyze([tmp_path / name])
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_an_empty_folder_and_a_missing_path_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no profile in this folder"):
        analyze([tmp_path])
    with pytest.raises(UsageError, match="no such file"):
        analyze([tmp_path / "gone.sqlite"])


def test_an_empty_file_has_a_note(tmp_path: Path) -> None:
    analysis = analyze([Export().write(tmp_path / "p.sqlite")])
    assert analysis.ranks == () and analysis.notes == ("no GPU activity and no step ranges",)
