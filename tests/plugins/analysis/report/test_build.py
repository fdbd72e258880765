"""The content of reports: verdicts, figures with formulas, repeats, scales, comparisons."""

from __future__ import annotations

import errno
import math
import os
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx import hookimpl
from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.errors import LlmbxError, UsageError
from llmbx.model import Chart, Fact, Launch, Peak, Reference, RunSpec, Section
from llmbx.plugins.manager import load
from llmbx.record.folder import STEPS, read_result
from llmbx_analysis.report.build import Report, build
from llmbx_analysis.report.cells import cells
from llmbx_analysis.report.gather import MOST_DETAILED, ReportOptions, gather
from llmbx_analysis.report.selection import select_runs
from llmbx_analysis.report.verdicts import verdict

from ....run_factory import FLOPS, RunFactory, Toy, noise
from .conftest import Reporter

STATUSES = ("failed", "cancelled", "timeout", "node_fail", "out_of_memory", "preempted", "lost")


def charts_of(section: Section) -> dict[str, Chart]:
    return {chart.name: chart for chart in section.charts}


def facts(report: Report) -> dict[str, Fact]:
    return {fact.name: fact for section in report.sections for fact in section.facts}


def test_the_figures_of_a_valid_run_follow_from_its_steps(run_factory: RunFactory, reporter: Reporter) -> None:
    times = noise(1, 2.0)
    run = run_factory.put(times)
    report = reporter.report(run)
    assert [(v.tone, v.word) for v in report.verdicts] == [("good", "valid")]
    found = facts(report)
    mean = statistics.fmean(times[11:45])
    assert found["step time"].value == pytest.approx(mean)
    assert found["standard deviation"].value == pytest.approx(statistics.stdev(times[11:45]))
    assert found["throughput"].value == pytest.approx(128 * 64 / mean)
    assert found["throughput per GPU"].value == pytest.approx(128 * 64 / mean / 8)
    assert found["MFU"].value == pytest.approx(100 * FLOPS.full * 64 / (mean * 8 * 989e12))
    assert found["time for 1T tokens"].value == pytest.approx(1e12 / (128 * 64 / mean) / 86400)


def test_every_figure_has_a_unit_and_a_formula_or_a_note(run_factory: RunFactory, reporter: Reporter) -> None:
    report = reporter.report(run_factory.put(noise(1, 2.0)))
    for fact in facts(report).values():
        assert fact.unit and (fact.formula or fact.note), fact
        assert fact.value is not None or fact.note, fact


def test_the_formula_gives_the_figure(run_factory: RunFactory, reporter: Reporter) -> None:
    """The numbers in a formula give the value next to it, within their printed precision."""
    found = facts(reporter.report(run_factory.put(noise(1, 2.0))))

    def numbers(name: str) -> list[float]:
        return [
            float(text.replace(",", "")) for text in re.findall(r"\d[\d,.]*(?:e[+-]\d+)?", found[name].formula or "")
        ]

    length, batch, seconds = numbers("throughput")
    assert math.isclose(length * batch / seconds, found["throughput"].value, rel_tol=1e-3)  # type: ignore[arg-type]
    flops, batch, seconds, gpus, peak = numbers("MFU")[:5]
    mfu = 100 * flops * batch / (seconds * gpus * peak * 1e12)
    assert math.isclose(mfu, found["MFU"].value, rel_tol=1e-3)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", STATUSES)
def test_a_failed_run_is_bad_and_shows_its_cause_first(
    run_factory: RunFactory, reporter: Reporter, status: str
) -> None:
    run = run_factory.put(
        noise(1, 2.0, count=8), valid=False, result={"status": status, "cause": "rank 3: out of luck"}
    )
    report = reporter.report(run)
    (said,) = report.verdicts
    assert (said.tone, said.word) == ("bad", status.replace("_", " "))
    assert said.text.startswith("rank 3: out of luck")
    assert facts(report)["step time"].value is None
    assert facts(report)["throughput"].note == "no valid data: see the verdict"
    assert facts(report)["steps in the log"].value == 8


def test_a_run_that_failed_after_its_last_step_keeps_its_figures(run_factory: RunFactory, reporter: Reporter) -> None:
    run = run_factory.put(
        noise(1, 2.0), result={"status": "failed", "data_valid": True, "cause": "after the last step: boom"}
    )
    report = reporter.report(run)
    assert (report.verdicts[0].tone, report.verdicts[0].word) == ("warn", "failed")
    assert facts(report)["step time"].value is not None


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"comparable": False, "not_comparable_because": ("a mini is a small proxy",)}, "a mini is a small proxy"),
        ({"profiled": True, "comparable": False, "not_comparable_because": ("profiled",)}, "profiled"),
        ({"traced": True, "comparable": False, "not_comparable_because": ("communication was traced",)}, "traced"),
    ],
)
def test_minis_profiled_and_traced_runs_are_not_benchmark_results(
    run_factory: RunFactory, reporter: Reporter, result: dict[str, Any], why: str
) -> None:
    (said,) = reporter.report(run_factory.put(noise(1, 2.0), result=result)).verdicts
    assert (said.tone, said.word) == ("warn", "not a benchmark result")
    assert why in said.reasons[0]


def test_a_run_without_measured_steps_is_not_valid(run_factory: RunFactory, reporter: Reporter) -> None:
    (said,) = reporter.report(run_factory.put(noise(1, 2.0, count=5), steps=5)).verdicts
    assert (said.tone, said.word) == ("bad", "no measurement")
    assert "ends at step 4" in said.text


def test_an_unknown_peak_says_how_to_set_one(run_factory: RunFactory, reporter: Reporter) -> None:
    mfu = facts(reporter.report(run_factory.put(noise(1, 2.0), peak=None)))["MFU"]
    assert mfu.value is None and "set [gpus.h100] peaks.bf16" in (mfu.note or "")


def test_repeats_are_joined_with_the_interval_over_their_means(run_factory: RunFactory, reporter: Reporter) -> None:
    means = (1.00, 1.02, 1.04)
    runs = [run_factory.put([mean] * 50, tags=(str(mean),)) for mean in means]
    (cell,) = reporter.cells(*runs)
    assert len(cell.runs) == 3
    time = facts(build([cell]))["step time"]
    assert time.value == pytest.approx(1.02)
    # Student's t for two degrees of freedom is 4.3027; the means' standard deviation is 0.02.
    half = 4.302653 * 0.02 / math.sqrt(3)
    assert (time.low, time.high) == (pytest.approx(1.02 - half), pytest.approx(1.02 + half))
    assert "3 runs" in (time.of or "")


def test_a_failed_repeat_is_reported_and_not_measured(run_factory: RunFactory, reporter: Reporter) -> None:
    good = [run_factory.put(noise(k, 1.0)) for k in range(2)]
    bad = run_factory.put(noise(9, 5.0, count=20), valid=False, result={"cause": "rank 1: gone"})
    report = reporter.report(*good, bad)
    assert report.verdicts[0].tone == "bad"
    assert "1 of 3 repeats did not complete" in report.verdicts[0].text
    assert facts(report)["step time"].value == pytest.approx(1.0, rel=0.01)


def test_cells_are_named_by_their_differences(run_factory: RunFactory, reporter: Reporter) -> None:
    runs = [
        run_factory.put(noise(1, 1.0)),
        run_factory.put(noise(2, 1.0), gpus=16),
        run_factory.put(noise(3, 1.0), cuda_graphs=True),
    ]
    assert [cell.name for cell in reporter.cells(*runs)] == [
        "line 1b bf16, 8 × h100",
        "line 1b bf16, 16 × h100",
        "line 1b bf16, 8 × h100, cuda graphs yes",
    ]


def test_efficiency_is_throughput_per_gpu_against_the_smallest_scale(
    run_factory: RunFactory, reporter: Reporter
) -> None:
    runs = [
        run_factory.put([1.0] * 50, gpus=8, global_batch_size=64),
        run_factory.put([1.25] * 50, gpus=16, global_batch_size=128),
        run_factory.put([1.0] * 50, gpus=32, global_batch_size=64),
    ]
    (section,) = [s for s in reporter.report(*runs).sections if s.name == "scaling"]
    efficiency = next(chart for chart in section.charts if chart.name == "efficiency")
    assert [(p.x, p.y) for p in efficiency.series[0].points] == [
        (8, pytest.approx(100.0)), (16, pytest.approx(80.0)), (32, pytest.approx(25.0))
    ]  # fmt: skip
    rate = 128 * 64 / 1.0
    ideal = next(series for series in charts_of(section)["scaling"].series if series.name == "ideal")
    assert [(p.x, p.y) for p in ideal.points] == [(8, rate), (16, 2 * rate), (32, 4 * rate)]


def test_the_efficiency_band_comes_from_both_step_times(run_factory: RunFactory, reporter: Reporter) -> None:
    runs = [run_factory.put(noise(1, 1.0), gpus=8), run_factory.put(noise(2, 0.55), gpus=16)]
    (section,) = [s for s in reporter.report(*runs).sections if s.name == "scaling"]
    point = charts_of(section)["efficiency"].series[0].points[1]
    assert point.y is not None and point.low is not None and point.high is not None
    assert point.y == pytest.approx(100 * 1.0 / 0.55 / 2, rel=0.005)
    assert 0 < point.high - point.low < 2 and point.low < point.y < point.high


def test_the_fastest_configuration_of_a_scale_makes_the_curve(run_factory: RunFactory, reporter: Reporter) -> None:
    runs = [
        run_factory.put([1.0] * 50), run_factory.put([0.8] * 50, cuda_graphs=True), run_factory.put([0.5] * 50, gpus=16)
    ]  # fmt: skip
    (section,) = [s for s in reporter.report(*runs).sections if s.name == "scaling"]
    series = {s.name: s for s in charts_of(section)["scaling"].series}
    assert [p.y for p in series["measured"].points] == [pytest.approx(128 * 64 / t) for t in (0.8, 0.5)]
    assert [p.y for p in series["other configurations"].points] == [pytest.approx(128 * 64 / 1.0)]


def test_published_rows_are_in_the_scaling_chart(
    run_factory: RunFactory, reporter: Reporter, toy: Toy, row: Reference
) -> None:
    far = row.replace(gpus=4096)
    toy.references = (row.replace(disputed="the batch"), far)
    runs = [run_factory.put([1.0] * 50), run_factory.put([0.6] * 50, gpus=16)]
    (section,) = [s for s in reporter.report(*runs).sections if s.name == "scaling"]
    published = next(s for s in charts_of(section)["scaling"].series if s.name == "published")
    (point,) = published.points
    assert (point.x, point.y) == (8, row.tokens_per_s)
    assert "disputed: the batch" in (point.note or "")


def test_a_run_is_compared_with_the_published_row(
    run_factory: RunFactory, reporter: Reporter, toy: Toy, row: Reference
) -> None:
    toy.references = (row,)
    report = reporter.report(run_factory.put(noise(1, 1.2)))
    assert (report.verdicts[0].tone, report.verdicts[0].word) == ("bad", "slower")
    (section,) = [s for s in report.sections if s.name == "against"]
    time = next(r for r in section.tables[0].rows if r[0] == "step time")
    assert time[1:3] == ("1 s", "1.2 s") or time[1] == "1 s"
    assert time[3] == pytest.approx(20, abs=1)


def test_a_run_is_compared_with_its_baseline_and_differences_are_listed(
    run_factory: RunFactory, reporter: Reporter
) -> None:
    run_factory.put(noise(1, 1.0), tags=("accepted",))
    report = reporter.report(run_factory.put(noise(2, 1.0), env={"NCCL_ALGO": "Tree"}), baseline="accepted")
    assert report.verdicts[0].word == "equivalent"
    (section,) = [s for s in report.sections if s.name == "against"]
    assert ("exported NCCL_ALGO", "unset", "Tree", "") in [row for table in section.tables for row in table.rows]


def test_an_inconclusive_comparison_is_not_shown_as_good(run_factory: RunFactory, reporter: Reporter) -> None:
    run_factory.put(noise(1, 1.0), tags=("accepted",))
    report = reporter.report(run_factory.put(noise(2, 1.05)), baseline="accepted")
    assert (report.verdicts[0].tone, report.verdicts[0].word) == ("warn", "inconclusive")
    assert "would decide" in report.verdicts[0].text


def test_a_comparison_that_is_not_possible_is_noted(
    run_factory: RunFactory, reporter: Reporter, toy: Toy, row: Reference
) -> None:
    toy.references = (row,)
    report = reporter.report(run_factory.put(noise(1, 1.0), global_batch_size=32), baseline="nobody")
    (section,) = [s for s in report.sections if s.name == "against"]
    assert any("no other run has this tag" in line for line in section.text)
    assert any("the global batch size differs (64 was published, 32 was run)" in line for line in section.text)
    assert report.verdicts[0].word == "valid"


def test_another_window_recomputes_the_figures(run_factory: RunFactory, reporter: Reporter) -> None:
    run = run_factory.put([2.0] * 20 + [1.0] * 30)
    assert facts(reporter.report(run, window="30-40"))["step time"].value == pytest.approx(1.0)


def test_the_configuration_has_the_origin_of_each_value(run_factory: RunFactory, reporter: Reporter) -> None:
    peak = Peak(tflops=989.0, name="H100 dense BF16", source="the vendor")
    run = run_factory.put(noise(1, 1.0), origins={"tp": "--set tp", "steps": "--steps"}, peak=peak)
    (section,) = [s for s in reporter.report(run).sections if s.name == "configuration"]
    rows = section.tables[0].rows
    assert ("tp", "1 rank", "--set tp") in rows
    assert ("steps", "50 steps", "--steps") in rows
    assert any(name == "peak" and "the vendor" in str(value) for name, value, _ in rows)


def test_a_running_run_is_left_out_with_a_note_or_rejected_if_it_is_the_only_one(
    run_factory: RunFactory, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llmbx_analysis.report import gather as module

    done, running = run_factory.put(noise(1, 1.0)), run_factory.put(noise(2, 1.0), gpus=16)
    monkeypatch.setattr(
        "llmbx_analysis.report.gather.refresh_result",
        lambda run, plugins, window: None if run is running else read_result(run.path),
    )
    found, notes = module.gather(
        [done, running], reporter.install, reporter.plugins, module.Config(), module.ReportOptions()
    )
    assert len(found) == 1 and notes == [f"{running.record.run_id} left out: it has not ended"]
    with pytest.raises(UsageError, match="has not ended"):
        module.gather([running], reporter.install, reporter.plugins, module.Config(), module.ReportOptions())


def test_a_damaged_run_is_left_out_with_a_note_or_rejected_if_it_is_the_only_one(
    run_factory: RunFactory, reporter: Reporter
) -> None:
    whole, damaged = run_factory.put(noise(1, 1.0)), run_factory.put(noise(2, 1.0), gpus=16)
    (damaged.path / STEPS).write_text('{"number": "x"}')
    found, notes = gather([whole, damaged], reporter.install, reporter.plugins, Config(), ReportOptions())
    assert len(found) == 1 and "line 1 is not a valid step" in notes[0] and damaged.record.run_id in notes[0]
    with pytest.raises(LlmbxError, match="line 1 is not a valid step"):
        gather([damaged], reporter.install, reporter.plugins, Config(), ReportOptions())


def test_names_of_sections_are_unique(run_factory: RunFactory, reporter: Reporter) -> None:
    runs = [run_factory.put(noise(k, 1.0), gpus=8 * (k + 1)) for k in range(3)]
    names = [section.name for section in reporter.report(*runs).sections]
    assert len(names) == len(set(names))


def test_a_cell_with_a_failed_run_is_never_good(run_factory: RunFactory, reporter: Reporter) -> None:
    for status in STATUSES:
        bad = run_factory.put(noise(1, 1.0), result={"status": status, "data_valid": False})
        good = run_factory.put(noise(2, 1.0))
        runs = [run for cell in reporter.cells(bad, good) for run in cell.runs]
        assert [verdict(cell).tone for cell in cells(runs)] == ["bad"]


class Profiler:
    """A profiler whose sections are those that `answer` returns."""

    def __init__(self, answer: Callable[[], list[Section]]) -> None:
        self.answer = answer

    @hookimpl
    def wrap_command(self, spec: RunSpec, launch: Launch) -> None:
        return None

    @hookimpl
    def report_sections(self, spec: RunSpec, run_dir: Path) -> list[Section]:
        return self.answer()


def test_profilers_that_the_run_had_add_sections(run_factory: RunFactory, reporter: Reporter) -> None:
    waited = Section(name="trace", title="Trace", facts=(Fact(name="waiting", value=0.5, unit="s"),))
    reporter.plugins.manager.register(Profiler(lambda: [waited]), name="tracer")
    with_, without = run_factory.put(noise(1, 1.0), profilers=("tracer",)), run_factory.put(noise(2, 1.0))
    assert waited in reporter.report(with_).sections
    assert "trace" not in [section.name for section in reporter.report(without).sections]


def test_a_profiler_that_fails_or_is_not_installed_gives_a_warning(run_factory: RunFactory, reporter: Reporter) -> None:
    reporter.plugins.manager.register(Profiler(lambda: [Section(name="x", title="y", facts=(broken(),))]), name="bad")
    report = reporter.report(run_factory.put(noise(1, 1.0), profilers=("bad", "gone")))
    said = {section.name: section.warnings for section in report.sections}
    assert "plugin 'bad': report_sections failed" in said["bad"][0] and "has no unit" in said["bad"][0]
    assert "no plugin named 'gone'" in said["gone"][0]
    assert report.verdicts[0].word == "valid"


def broken() -> Fact:
    return Fact(name="speed", value=1.0)


def test_the_nodes_are_listed_with_their_clocks_and_power(run_factory: RunFactory, reporter: Reporter) -> None:
    run = run_factory.put(noise(1, 1.0))
    for number, host in enumerate(("n1", "n2")):
        gpus = "gpu H100, 550.54, 700.00, 1980, 2619, [N/A]\n" * 8
        (run.path / f"node-{number}.txt").write_text(f"host {host}\nkernel 6.1\ncores 64\n{gpus}")
    (section,) = [s for s in reporter.report(run).sections if s.title.startswith("Environment")]
    (table,) = [t for t in section.tables if t.title == "nodes"]
    told = dict(table.rows)
    assert told["names"] == "n1, n2"
    assert told["gpu power limit w"] == "700.0 W"
    assert told["gpu clock sm max mhz"] == "1980 MHz"
    assert told["gpus seen"] == "16 GPUs"


def test_a_folder_that_cannot_be_listed_has_no_run(
    run_factory: RunFactory, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_factory.put(noise(1, 2.0))
    (install.path / "odd").mkdir()
    real = os.scandir

    def scandir(path: str | Path = ".") -> object:
        if Path(path).name == "odd":
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path)

    monkeypatch.setattr("os.scandir", scandir)
    assert [found.record.run_id for found in select_runs(install, [install.root], False, load()).runs] == [
        run.record.run_id
    ]


def test_of_many_runs_the_sections_about_each_are_left_out_with_a_note(
    run_factory: RunFactory, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        type(reporter.plugins), "report_sections", lambda *_: [Section(name="profile", title="Profile")]
    )
    runs = [run_factory.put(noise(seed, 1.0)) for seed in range(MOST_DETAILED + 1)]

    def of(chosen: list[Any]) -> tuple[bool, list[str]]:
        found, notes = gather(chosen, reporter.install, reporter.plugins, Config(), ReportOptions())
        return any(run.sections for cell in found for run in cell.runs), notes

    assert of(runs[:-1]) == (True, [])
    several, (note,) = of(runs)
    assert not several and "llmbx report RUN --single" in note
