"""Which causes are named, on which rank and with which share, by synthetic runs whose causes are known."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result

from llmbx.api import RunSpec, UsageError
from llmbx.model import Step
from llmbx_explain import cli
from llmbx_explain.slow.budget import Part, losses, mean_s
from llmbx_explain.slow.causes import Cause, SlowRun
from llmbx_explain.slow.evidence import Evidence
from llmbx_explain.slow.explain import ITSELF, explained
from llmbx_explain.slow.processors import SWITCH_S
from llmbx_explain.slow.render import text
from llmbx_explain.slow.sections import sections
from llmbx_explain.slow.table import CAUSES
from llmbx_telemetry.entry.step_clock import COLUMNS, MAGIC, RECORD

from ...run_factory import RunFactory
from .synthetic import NODE, STEPS, clocks_of, even_work, ran, run_of


def explain(run: Evidence, healthy: Evidence | None = None) -> SlowRun:
    """Explain, and check what holds for each run."""
    if healthy is None:
        slow = explained(run, None, ITSELF, None)
    else:
        slow = explained(run, healthy, healthy.name, healthy.step_s)
    assert sum(cause.share or 0.0 for cause in slow.causes) + slow.unexplained == pytest.approx(1.0)
    assert all(len(line) <= 80 for line in text(slow).splitlines())
    return slow


def first(slow: SlowRun) -> Cause:
    assert slow.causes, "no cause is named"
    return slow.causes[0]


def lost(slow: SlowRun, cause: Cause) -> float:
    """What a cause takes of a step, in percent."""
    assert slow.lost_s_per_step is not None and slow.step_s is not None
    return 100 * cause.share * slow.lost_s_per_step / slow.step_s


def test_a_healthy_run_has_no_cause() -> None:
    clocks = clocks_of(even_work())
    slow = explain(run_of(clocks, ran(clocks)))
    assert slow.causes == () and slow.lost_s_per_step == pytest.approx(0.0, abs=1e-9)


def late(rank: int, more: float = 0.1) -> Any:
    work = even_work()
    work[rank] += more
    return clocks_of(work)


def test_a_rank_that_computes_more() -> None:
    clocks = late(2)
    slow = explain(run_of(clocks, ran(clocks)))
    cause = first(slow)
    assert (cause.id, cause.rank, cause.node, cause.certainty) == ("slow-rank", 2, "synthetic", "sure")
    assert lost(slow, cause) == pytest.approx(100 * 0.1 / 0.42, abs=1.5)


def test_with_one_kind_of_evidence_a_cause_is_only_consistent_with_it() -> None:
    assert first(explain(run_of(late(2)))).certainty == "consistent with"


@pytest.mark.parametrize(
    ("counter", "cause"), [("run_delay", "cpu-contention"), ("throttled", "cpu-limit")], ids=["delay", "limit"]
)
def test_a_rank_whose_processor_is_taken(counter: str, cause: str) -> None:
    clocks = late(1)
    columns = ran(clocks, {1: 0.1})
    columns[f"rank1.{counter}"] = np.full(STEPS - 2, 0.1e6)
    named = first(slow := explain(run_of(clocks, columns)))
    assert (named.id, named.rank, named.certainty) == (cause, 1, "sure")
    assert lost(slow, named) == pytest.approx(24, abs=2)


def test_all_ranks_whose_processors_are_taken() -> None:
    clocks = clocks_of(even_work(seconds=0.5))
    columns = ran(clocks, dict.fromkeys(range(4), 0.3))
    for rank in range(4):
        columns[f"rank{rank}.run_delay"] = np.full(STEPS - 2, 0.3e6)
    named = first(explain(run_of(clocks, columns)))
    assert (named.id, named.rank, named.certainty) == ("cpu-contention", None, "sure")


def test_a_little_contention_on_all_ranks_is_usual() -> None:
    clocks = clocks_of(even_work())
    columns = ran(clocks, dict.fromkeys(range(4), 0.03))
    for rank in range(4):
        columns[f"rank{rank}.run_delay"] = np.full(STEPS - 2, 0.03e6)
    assert explain(run_of(clocks, columns)).causes == ()


def test_threads_of_all_ranks_that_take_turns() -> None:
    clocks = clocks_of(even_work())
    columns = {**ran(clocks), **{f"rank{row}.switches": np.full(STEPS - 2, 2000.0) for row in range(4)}}
    columns |= {f"rank{row}.preempted": np.full(STEPS - 2, 500.0) for row in range(4)}
    named = first(slow := explain(run_of(clocks, columns, threads=((2, 1),) * 4)))
    assert (named.id, named.rank, named.certainty) == ("threads", None, "sure")
    assert lost(slow, named) == pytest.approx(100 * 2500 * SWITCH_S / 0.32, abs=1)
    assert explain(run_of(clocks, columns, threads=((2, 2),) * 4)).causes == (), "each thread has a core"


@pytest.mark.parametrize(("moves", "cause"), [(0.1, "expert-imbalance"), (0.0, "slow-rank")])
def test_an_imbalance_of_experts_moves_with_the_routing(moves: float, cause: str) -> None:
    work = even_work()
    more = 0.1 * (1 + moves * np.random.default_rng(2).standard_normal(STEPS)) * np.sign(moves or 1)
    work[1] += more
    work[[0, 2, 3]] -= (more - 0.1) / 3 + (0.1 / 3 if moves else 0.0)
    clocks = clocks_of(work)
    named = first(explain(run_of(clocks, ran(clocks), final={"model.expert_model_parallel_size": 4})))
    assert (named.id, named.rank, named.certainty) == (cause, 1, "sure")


def test_a_rank_that_is_stopped_at_times() -> None:
    work, stopped = even_work(), np.zeros(STEPS)
    stopped[::10] = 1.0
    work[3] += stopped
    clocks = clocks_of(work)
    columns = ran(clocks, {3: stopped[1:-1]})
    slow = explain(run_of(clocks, {**columns, "rank3.state": 84.0}))
    assert (first(slow).id, first(slow).rank, first(slow).certainty) == ("paused-process", 3, "sure")
    assert lost(slow, first(slow)) == pytest.approx(100 * 0.1 / 0.42, abs=3)


@pytest.mark.parametrize(("swapped", "cause"), [(0.0, "memory-pressure"), (2e5, "swap")])
def test_a_rank_that_waits_for_its_memory(swapped: float, cause: str) -> None:
    clocks = late(0)
    columns = {**ran(clocks, {0: 0.1}), "rank0.major_faults": np.full(STEPS - 2, 300.0), "rank0.swap": swapped}
    columns["paging.swap_in"] = np.full(STEPS - 2, 300.0)
    named = first(explain(run_of(clocks, columns)))
    assert (named.id, named.rank, named.certainty) == (cause, 0, "sure")


@pytest.mark.parametrize(("read", "cause"), [(0.0, "data-loading"), (4e6, "disk")])
@pytest.mark.parametrize("rank", [None, 2])
def test_slow_loading(read: float, cause: str, rank: int | None) -> None:
    data = np.zeros((4, STEPS))
    data[slice(None) if rank is None else rank] = 0.1
    clocks = clocks_of(even_work(), data)
    columns = {**ran(clocks), **{f"rank{row}.io.read_bytes": np.full(STEPS - 2, read) for row in range(4)}}
    slow = explain(run_of(clocks, columns))
    assert (first(slow).id, first(slow).rank, first(slow).certainty) == (cause, rank, "sure")
    assert lost(slow, first(slow)) == pytest.approx(24, abs=3)


def test_what_the_program_noted() -> None:
    work, marks = even_work(), np.zeros((4, STEPS))
    marks[1, ::3] = 0.3
    clocks = clocks_of(work + marks)
    run = run_of(clocks, ran(clocks), marks={"garbage-collection": marks[:, 1:-1]})
    slow = explain(run)
    assert (first(slow).id, first(slow).rank, first(slow).certainty) == ("garbage-collection", 1, "sure")
    assert lost(slow, first(slow)) == pytest.approx(100 * 0.1 / 0.42, abs=3)


@pytest.mark.parametrize(("again", "cause"), [(0.0, "network-latency"), (30.0, "network-loss")])
def test_a_network_for_which_all_ranks_wait(again: float, cause: str) -> None:
    jitter = 1 + 0.05 * np.random.default_rng(3).standard_normal(STEPS)
    clocks = clocks_of(even_work(), shared=0.2 * jitter)
    columns = {**ran(clocks), "tcp.retransmitted": np.full(STEPS - 2, again)}
    columns["net.eth0.sent"] = np.full(STEPS - 2, 1e4 * 1448)
    named = first(slow := explain(run_of(clocks, columns)))
    assert (named.id, named.rank) == (cause, None)
    assert lost(slow, named) == pytest.approx(100 * 0.18 / 0.5, abs=3)


def test_a_network_that_is_narrow_takes_as_long_in_each_step() -> None:
    clocks = clocks_of(even_work(), shared=0.2)
    named = first(explain(run_of(clocks, {**ran(clocks), "net.eth0.sent": np.full(STEPS - 2, 1e7)})))
    assert (named.id, named.rank, named.certainty) == ("network-fallback", None, "sure")


def test_first_steps_that_are_slow_and_steps_that_get_slower() -> None:
    number = np.arange(STEPS)
    warm = clocks_of(even_work() + 0.5 * 0.5 ** (number / 10))
    assert first(slow := explain(run_of(warm, ran(warm)))).id == "warm-up" and slow.step_s is not None
    assert lost(slow, first(slow)) == pytest.approx(100 * 0.5 * 14.4 / STEPS / slow.step_s, abs=1)
    drift = clocks_of(even_work() + 0.001 * number)
    named = first(slow := explain(run_of(drift, ran(drift))))
    assert named.id == "drift" and lost(slow, named) == pytest.approx(100 * 0.1 / 0.42, abs=4)


@pytest.mark.parametrize(
    ("key", "before", "after", "cause"),
    [
        ("model.recompute_granularity", None, "full", "recompute"),
        ("model.params_dtype", "bf16", "fp32", "dtype-fallback"),
        ("model.cuda_graph_impl", "local", "none", "graphs-off"),
        ("model.num_layers", 3, 4, "wrong-work"),
        ("train.num_microbatches", 8, 2, "bubble"),
    ],
)
def test_work_that_differs_from_the_other_run(key: str, before: object, after: object, cause: str) -> None:
    usual, slow = clocks_of(even_work()), clocks_of(even_work(seconds=0.4))
    healthy = run_of(usual, ran(usual), final={key: before, "model.hidden_size": 64})
    result = explain(run_of(slow, ran(slow), final={key: after, "model.hidden_size": 64}), healthy)
    named = first(result)
    assert (named.id, named.rank, named.certainty) == (cause, None, "sure")
    assert named.share == pytest.approx(1.0, abs=0.02) and f"{key} {before} -> {after}" in named.evidence[0]


@pytest.mark.parametrize(("kind", "cause"), [("none", ["graphs-off"]), ("local", [])])
def test_graphs_that_were_asked_for_and_are_off(kind: str, cause: list[str], spec: RunSpec) -> None:
    clocks = clocks_of(even_work(seconds=0.4))
    asked = msgspec.structs.replace(spec, cuda_graphs=True)
    run = run_of(clocks, ran(clocks), final={"model.cuda_graph_impl": kind}, spec=asked)
    slow = explained(run, None, "the reference", 0.32)
    assert [named.id for named in slow.causes] == cause


def test_a_network_that_is_slower_than_in_the_other_run() -> None:
    usual, slow = clocks_of(even_work()), clocks_of(even_work(), shared=0.12)
    named = first(explain(run_of(slow, ran(slow)), run_of(usual, ran(usual))))
    assert named.id.startswith("network") and named.share > 0.95


# ---- GPUs, by synthetic samples


def gpus(clocks: Any, mhz: dict[int, float] | None = None, **more: Any) -> Evidence:
    """A run on synthetic GPUs with these clocks instead of 1,900 MHz."""
    columns: dict[str, Any] = {}
    for row in range(4):
        columns[f"gpu{row}.clock.sm"] = float((mhz or {}).get(row, 1900.0))
        columns[f"gpu{row}.busy"] = 99.0
    of_all = {"sm_max_mhz": 1980, **more.pop("facts", {})}
    facts = {f"gpu{row}": {"uuid": f"GPU-synthetic-{row}", **of_all} for row in range(4)}
    return run_of(clocks, {**columns, **more.pop("columns", {})}, facts, **more)


def on_gpus(work: Any) -> Any:
    return clocks_of(work, device="cuda", uuid="GPU-synthetic")


@pytest.mark.parametrize(
    ("counter", "cause"),
    [("throttled.power", "throttle-power"), ("throttled.thermal", "throttle-thermal"), (None, "clock-limit")],
)
def test_a_gpu_with_a_lower_clock(counter: str | None, cause: str) -> None:
    work = even_work()
    work[2] /= 0.8
    clocks = on_gpus(work)
    columns = {f"gpu2.{counter}": 0.8e9 * clocks.period} if counter else {}
    slow = explain(gpus(clocks, {2: 1520.0}, columns=columns))
    assert (first(slow).id, first(slow).rank, first(slow).certainty) == (cause, 2, "sure")
    assert lost(slow, first(slow)) == pytest.approx(100 * 0.075 / 0.395, abs=3)


def test_a_gpu_that_is_slow_at_the_usual_clock() -> None:
    work = even_work()
    work[1] *= 1.3
    named = first(explain(gpus(on_gpus(work))))
    assert (named.id, named.rank, named.certainty) == ("slow-gpu", 1, "sure")


def test_a_gpu_with_another_process() -> None:
    work = even_work()
    work[1] *= 1.3
    named = first(explain(gpus(on_gpus(work), columns={"gpu1.foreign_processes": 1.0})))
    assert (named.id, named.rank, named.certainty) == ("foreign-gpu-process", 1, "sure")


@pytest.mark.parametrize(
    ("cores", "cause"), [({1: 40.0}, "numa-binding"), ({}, "slow-gpu"), (dict.fromkeys(range(4), 40.0), "slow-gpu")]
)
def test_a_rank_on_cores_that_are_far_from_its_gpu(cores: dict[int, float], cause: str) -> None:
    work = even_work()
    work[1] *= 1.3
    columns = {f"rank{row}.cpu": cores.get(row, 3.0) for row in range(4)}
    run = gpus(on_gpus(work), columns=columns, facts={"near_cpus": "0xffff"})
    named = first(explain(run))
    assert (named.id, named.rank, named.certainty) == (cause, 1, "sure")


def test_a_clock_that_is_capped_by_a_tenth_is_told_from_slower_software() -> None:
    """Of 20 pairs of runs each, at other clocks, noise and shares of the work that the clock matters for."""
    capped = software = 0
    for seed in range(20):
        chance = np.random.default_rng(seed)
        clock, part = 1500.0 + 450 * chance.random(), 0.7 + 0.3 * chance.random()
        healthy = gpus(on_gpus(even_work(seed=seed)), dict.fromkeys(range(4), clock))
        slower = even_work(seed=seed + 100) * (1 + part / 9)
        lower = gpus(on_gpus(slower), dict.fromkeys(range(4), 0.9 * clock))
        same = gpus(on_gpus(slower), dict.fromkeys(range(4), clock))
        capped += first(explain(lower, healthy)).id == "clock-limit"
        software += not any(cause.id in ("clock-limit", "throttle-power") for cause in explain(same, healthy).causes)
    assert capped >= 19 and software >= 19


# ---- the budget


def test_two_ranks_that_are_equally_late_share_the_loss() -> None:
    work = even_work()
    work[:2] += 0.1
    clocks = clocks_of(work)
    parts = [Part(own=np.eye(4)[row][:, None] * np.full(STEPS - 2, 0.1)) for row in (0, 1)]
    costs = losses(clocks, parts)
    assert costs[0] == pytest.approx(costs[1], rel=0.2)
    assert sum(costs) == pytest.approx(mean_s(clocks, []) - mean_s(clocks, parts))


def test_time_of_a_rank_for_which_nobody_waits_costs_nothing() -> None:
    clocks = late(0)
    part = Part(own=np.eye(4)[1][:, None] * np.full(STEPS - 2, 0.1))
    assert losses(clocks, [part]) == [pytest.approx(0.0, abs=1e-9)]


@pytest.mark.parametrize("seed", range(20))
def test_shares_and_what_is_unexplained_are_the_whole(seed: int) -> None:
    """Of runs in which anything may happen at once; `explain` checks it."""
    chance = np.random.default_rng(seed)
    work = even_work(seed=seed) + 0.1 * chance.random((4, STEPS)) * (chance.random((4, 1)) < 0.3)
    work[:, :: int(chance.integers(3, 40))] += float(chance.random())
    clocks = clocks_of(work, data=0.1 * float(chance.random()), shared=0.2 * chance.random(STEPS) ** 3)
    columns = ran(clocks, {0: 0.1 * float(chance.random())})
    for measure, most in (("run_delay", 1e5), ("throttled", 1e5), ("major_faults", 100), ("io.read_bytes", 1e6)):
        columns[f"rank{int(chance.integers(4))}.{measure}"] = most * chance.random(STEPS - 2)
    assert all(0 <= cause.share <= 1 for cause in explain(run_of(clocks, columns)).causes)


def test_each_cause_has_something_to_confirm_and_to_do() -> None:
    assert all(advice.confirm and advice.do for advice in CAUSES.values())


# ---- the command


def command(*arguments: object) -> Result:
    return CliRunner().invoke(cli.command, [str(argument) for argument in arguments])


def stored(run_factory: RunFactory, late_s: float = 0.1) -> Path:
    """A stored run of two ranks, of which the second works longer."""
    folder = run_factory.put([0.42] * 60).path
    (folder / "step_clocks").mkdir()
    for rank, work in enumerate((0.3, 0.3 + late_s)):
        head = {"rank": rank, "node": NODE, "boot_id": NODE, "device": "cpu", "columns": COLUMNS, "monotonic_ns": 0,
                "wall_ns": 10**18}  # fmt: skip
        text = json.dumps(head).encode()
        period, wait = 0.32 + late_s, 0.32 + late_s - work
        row = [int(value * 1e6) for value in (0.0, work, work, wait, wait, 0.0, period)]
        rows = b"".join(RECORD.pack(step, int(step * period * 1e9), *row) for step in range(60))
        content = MAGIC + struct.pack("<I", len(text)) + text + rows
        (folder / "step_clocks" / f"rank-{rank}.bin").write_bytes(content)
    return folder


def test_the_object_of_a_slow_run(run_factory: RunFactory) -> None:
    answer = json.loads(command(stored(run_factory), "--format", "json").stdout)
    assert set(answer) == {"lost_s_per_step", "causes", "unexplained"}
    (cause,) = answer["causes"]
    assert set(cause) == {"id", "rank", "node", "share", "certainty", "evidence", "confirm", "do"}
    assert (cause["id"], cause["rank"], cause["node"]) == ("slow-rank", 1, NODE)
    assert answer["lost_s_per_step"] == pytest.approx(0.1, abs=0.005)


def test_the_text_says_what_is_lost_and_what_was_not_collected(run_factory: RunFactory) -> None:
    lines = command(stored(run_factory)).stdout.splitlines()
    assert "0.1 s of it lost (23.8 %)" in lines[0] and max(map(len, lines)) <= 80
    assert any("slow-rank, rank 1 on synthetic (consistent with)" in line for line in lines)
    assert "  samples of the nodes: telemetry/node-N.tsv was not written" in lines


def test_against_another_run(run_factory: RunFactory) -> None:
    slow, healthy = stored(run_factory), stored(run_factory, late_s=0.0)
    answer = json.loads(command(slow, "--against", healthy, "--format", "json").stdout)
    assert answer["lost_s_per_step"] == pytest.approx(0.1, abs=0.005) and answer["causes"][0]["rank"] == 1


@pytest.mark.parametrize(
    ("against", "words"),
    [("prediction", "nothing was predicted"), ("reference", "published"), ("./nowhere", "nowhere")],
)
def test_what_cannot_be_compared_with_is_said_in_one_line(run_factory: RunFactory, against: str, words: str) -> None:
    done = command(stored(run_factory), "--against", against)
    assert done.exit_code != 0 and words in str(done.exception) and "\n" not in str(done.exception)


def test_a_log_has_nothing_to_be_compared(tmp_path: Path) -> None:
    (tmp_path / "a.out").write_text("hello\n")
    done = command(tmp_path / "a.out", "--against", "reference")
    assert isinstance(done.exception, UsageError) and "not a run of llmbx" in str(done.exception)


def test_the_report_has_the_budget_of_a_step_and_the_waits(run_factory: RunFactory) -> None:
    (section,) = sections(stored(run_factory))
    budget, waits, steps = section.charts
    assert [series.name for series in budget.series] == [
        "without what is lost", "slow-rank, rank 1", "unexplained", "as measured",
    ]  # fmt: skip
    assert budget.series[1].points[0].low == pytest.approx(0.32, abs=0.005)
    light, *_, dark = (series.points for series in waits.series if series.points)
    assert {point.y for point in light} == {1.0} and {point.y for point in dark} == {0.0}, "both ranks are shown"
    assert len(steps.series[0].points) == 34  # of the window


def test_another_program_on_all_gpus_against_a_run_without_it() -> None:
    """The GPU's clock is lower as well, but that explains little: as measured on an H200."""
    beside = {f"gpu{row}.foreign_processes": 1.0 for row in range(4)}
    healthy = gpus(on_gpus(even_work()), dict.fromkeys(range(4), 1660.0))
    slow = explain(gpus(on_gpus(2.2 * even_work()), dict.fromkeys(range(4), 1570.0), columns=beside), healthy)
    named = first(slow)
    assert (named.id, named.rank, named.certainty) == ("foreign-gpu-process", None, "sure")
    assert named.share is not None and named.share > 0.9


def test_another_program_on_a_gpu_without_anything_to_compare_with() -> None:
    columns = {"gpu0.foreign_processes": 1.0, "gpu0.busy": 99.0}
    facts = {"sm_max_mhz": 1980, "power_limit_mw": 500_000, "power_default_mw": 700_000}
    clocks = on_gpus(even_work(ranks=1))
    columns |= {"gpu0.throttled.power": 1e9 * clocks.period}
    slow = explain(gpus(clocks, {0: 1500.0}, columns=columns, facts=facts))
    limited = next(cause for cause in slow.causes if cause.id == "throttle-power")
    assert any("power limit 500 W, its default is 700 W" in line for line in limited.evidence)
    named = first(slow)
    assert (named.id, named.share, named.certainty) == ("foreign-gpu-process", None, "consistent with")


def test_a_gpu_at_its_power_limit_in_both_runs_has_no_locked_clock() -> None:
    healthy_clocks, slow_clocks = on_gpus(even_work()), on_gpus(1.08 * even_work())
    limited = [
        {f"gpu{row}.throttled.power": 1e9 * clocks.period for row in range(4)}
        for clocks in (healthy_clocks, slow_clocks)
    ]
    healthy = gpus(healthy_clocks, dict.fromkeys(range(4), 1668.0), columns=limited[0])
    slow = explain(gpus(slow_clocks, dict.fromkeys(range(4), 1558.0), columns=limited[1]), healthy)
    assert first(slow).id == "throttle-power"


def test_nothing_is_named_where_nothing_is_lost() -> None:
    healthy = gpus(on_gpus(even_work()), dict.fromkeys(range(4), 1668.0))
    same = gpus(on_gpus(0.99 * even_work()), dict.fromkeys(range(4), 1558.0))
    assert not explain(same, healthy).causes


def test_one_rank_waits_for_no_network() -> None:
    alone, slower = even_work(ranks=1), clocks_of(even_work(ranks=1), shared=0.2)
    assert not any(cause.id.startswith("network") for cause in explain(run_of(slower), run_of(clocks_of(alone))).causes)


def test_steps_that_get_longer_with_the_other_work_on_the_cores_are_no_sure_drift() -> None:
    """A processor that is lent to others more and more slows the steps by as much."""
    share = np.linspace(0.0, 0.4, STEPS)
    clocks = clocks_of(even_work() / (1 - share))
    taken = clocks.phases["work"] * share[-clocks.phases["work"].shape[1] :]
    columns = ran(clocks, dict(enumerate(taken)))
    columns |= {f"rank{row}.run_delay": 0.25e6 * taken[row] for row in range(4)}
    steps = tuple(Step(number=number, time_s=float(seconds)) for number, seconds in enumerate(clocks.period))
    causes = explain(run_of(clocks, columns, steps=steps)).causes
    assert causes
    assert not any(cause.id in ("drift", "warm-up") and cause.certainty != "consistent with" for cause in causes)
