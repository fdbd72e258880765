"""The page of a comparison: verdict and change first, both distributions on one axis, and what differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.config.install import Install
from llmbx.model import Chart, Reference
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Run
from llmbx_analysis.compare import compare_runs, measured
from llmbx_analysis.report.build import Report
from llmbx_analysis.report.comparison_page import build
from llmbx_analysis.report.curves import shared_bars
from llmbx_analysis.report.markdown import render

from ....run_factory import RunFactory, Toy, noise
from .test_compare import Compare, compare

__all__ = ["compare"]


def steady(mean: float) -> list[float]:
    """Deterministic step times with a small regular variation."""
    return [mean * (1 + 0.01 * ((k * 7) % 5 - 2)) for k in range(50)]


@pytest.fixture
def report(plugins: Plugins) -> Callable[..., Report]:
    """`report([a], [b], force=True)`: the report on the comparison of these runs."""

    def compared(a: list[Run], b: list[Run], force: bool = False) -> Report:
        one, two = ([measured(run, plugins) for run in side] for side in (a, b))
        return build(compare_runs(one, two, 0.05, force=force), one, two)

    return compared


def charts(found: Report) -> dict[str, Chart]:
    return {chart.name: chart for section in found.sections for chart in section.charts}


def test_a_slower_run(
    run_factory: RunFactory, report: Callable[..., Report], install: Install, golden: Callable[[str, str], None]
) -> None:
    a = run_factory.put(steady(1.0))
    b = run_factory.put(steady(1.08), record={"versions": {"torch": "2.9.0"}})
    found = report([a], [b]).replace(llmbx_version="1.2.3")
    golden("page.md", render(found).replace(install.root, "/install"))


def test_the_change_with_its_interval_is_the_first_figure(
    run_factory: RunFactory, report: Callable[..., Report]
) -> None:
    found = report([run_factory.put(steady(1.0))], [run_factory.put(steady(1.08))])
    assert [(v.tone, v.word) for v in found.verdicts] == [("bad", "slower")]
    assert found.verdicts[0].text.startswith("Steps take 8.0 % more time (95 % interval +")
    assert found.overview is not None
    change, one, two = found.overview.facts
    assert change.name == "change of step time" and change.value == pytest.approx(8.0)
    assert change.low is not None and change.high is not None and change.low < 8 < change.high
    assert (one.value, two.value) == (pytest.approx(1.0, rel=1e-3), pytest.approx(1.08, rel=1e-3))
    assert [name for name, _ in found.overview.context] == ["A", "B"]


def test_both_distributions_have_the_same_bars(run_factory: RunFactory, report: Callable[..., Report]) -> None:
    found = report([run_factory.put(noise(1, 1.0))], [run_factory.put(noise(2, 1.02))])
    chart = charts(found)["distributions"]
    assert [series.name for series in chart.series] == ["A", "B"]
    for series in chart.series:
        assert sum(point.y or 0 for point in series.points) == pytest.approx(100)
    widths = {round((p.until or 0) - p.x, 9) for series in chart.series for p in series.points}
    assert len(widths) == 1
    assert [rule.name.partition(" ")[0] for rule in chart.rules] == ["A:", "B:"]


def test_shared_bars_hold_the_values_of_their_side() -> None:
    sides = ([1.0, 1.1, 1.1, 1.2], [1.15, 1.3, 1.9, 2.0])
    for side, bars in zip(sides, shared_bars(sides), strict=True):
        for bar in bars:
            assert bar.until is not None and bar.y
            last = bar.until == pytest.approx(2.0)
            inside = [v for v in side if bar.x <= v and (v < bar.until or (last and v <= bar.until))]
            assert bar.y == pytest.approx(100 * len(inside) / len(side))


def test_repeats_have_a_chart_of_their_means(run_factory: RunFactory, report: Callable[..., Report]) -> None:
    a = [run_factory.put(noise(k, 1.0 + k / 100)) for k in range(3)]
    b = [run_factory.put(noise(k, 1.2)) for k in range(3, 5)]
    found = report(a, b)
    assert [[point.x for point in series.points] for series in charts(found)["means"].series] == [[1, 2, 3], [1, 2]]
    table = next(table for section in found.sections for table in section.tables if table.title == "runs of both sides")
    assert [column.title for column in table.columns[1:]] == [
        "A, run 1", "A, run 2", "A, run 3", "B, run 1", "B, run 2"
    ]  # fmt: skip
    assert table.rows[0][1:] == tuple(run.record.run_id for run in (*a, *b))
    assert "means" not in charts(report(a[:1], b[:1]))


def test_runs_that_are_not_comparable_have_figures_only_if_forced(
    run_factory: RunFactory, report: Callable[..., Report]
) -> None:
    sides = [run_factory.put(noise(1, 1.0))], [run_factory.put(noise(2, 1.0), gpus=16)]
    found = report(*sides)
    assert found.verdicts[0].word == "not comparable" and found.verdicts[0].tone == "warn"
    assert "The number of GPUs differs (8 and 16)." in found.verdicts[0].text
    assert "`llmbx compare --force` shows the figures" in found.verdicts[0].text
    assert not charts(found) and found.overview is not None and not found.overview.facts
    forced = report(*sides, force=True)
    assert "The figures below are not a verdict" in forced.verdicts[0].text and charts(forced)


def test_the_page_is_written_beside_any_format(run_factory: RunFactory, compare: Compare, tmp_path: Path) -> None:
    a, b = run_factory.put(noise(1, 1.0), tags=("accepted",)), run_factory.put(noise(2, 1.2))
    page = tmp_path / "new" / "page.html"
    done = compare("--baseline", "accepted", b.record.run_id, "--format", "json", "--html", str(page))
    assert done.exit_code == 3 and json.loads(done.stdout)["verdict"] == "slower"
    assert str(page) in done.stderr
    text = page.read_text()
    assert text.index('<div class="verdict bad') < text.index("figures-distributions") < text.index('id="differences"')
    assert a.record.run_id in text and "baseline accepted" in text


def test_a_published_figure_is_a_line_in_the_distribution(
    run_factory: RunFactory, compare: Compare, toy: Toy, row: Reference, tmp_path: Path
) -> None:
    toy.references = (row,)
    run_factory.put(noise(2, 1.1))
    assert compare("last", "--reference", "--html", str(tmp_path / "page.html")).exit_code == 3
    text = (tmp_path / "page.html").read_text()
    assert "A: published 1 s" in text and "published: The recipe, table" in text
