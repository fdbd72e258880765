"""`llmbx nsys`: tables, JSON, CSV and HTML."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner

from llmbx.errors import InfraError, UsageError
from llmbx.model import RunSpec
from llmbx_profiling import plugin
from llmbx_profiling.analysis.analyze import analyze
from llmbx_profiling.analysis.sections import section as make_section
from llmbx_profiling.cli import command

from .exports import Export

Golden = Callable[[str, str], None]
SPEC = cast(RunSpec, None)
"""The hook reads the folder, not the specification."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two ranks, two steps; rank 1 is late to the all-reduce of step 46."""
    for rank in range(2):
        made = Export()
        made.domain(1, "llmbx")
        for step in (45, 46):
            t = 1_000_000 * step
            late = 50_000 if rank == 1 and step == 46 else 0
            made.range(t, t + 1_000_000, "step", domain=1, payload=step)
            made.range(t + 5_000, t + 400_000, "forward")
            made.kernel(t, t + 300_000, "void gemm_bf16<128>(int)")
            made.kernel(t + 250_000 + late, t + 500_000, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL()")
            made.kernel(t + 600_000, t + 900_000, "void gemm_bf16<64>(int)")
            made.copy(t + 900_000, t + 910_000)
        made.write(tmp_path / f"profile_rank{rank}.sqlite")
    return tmp_path


def test_the_path_of_the_page_is_not_empty() -> None:
    with pytest.raises(UsageError, match="--html '': expected a path"):
        run("x.sqlite", "--html", "")


def run(*arguments: str) -> str:
    done = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_tables(folder: Path, golden: Golden) -> None:
    golden("nsys-table.txt", run(str(folder)))


def test_a_profile_of_the_cpu(tmp_path: Path, golden: Golden) -> None:
    made = Export()
    made.domain(1, "llmbx")
    made.range(0, 2_500_000, "step", domain=1, payload=45)
    golden("nsys-cpu.txt", run(str(made.write(tmp_path / "p.sqlite"))))


def test_json_holds_everything(folder: Path) -> None:
    analysis = json.loads(run(str(folder), "--format", "json"))
    assert analysis["schema_version"] == 1
    assert {len(analysis[key]) for key in ("files", "ranks")} == {2} and len(analysis["steps"]) == 4
    assert analysis["steps"][0]["exposed_s"] == pytest.approx(0.0002)
    assert analysis["stragglers"]["ranks"][0]["label"] == "rank 1"
    assert analysis["exposed_share"] == pytest.approx(0.2)


def test_csv_has_one_line_a_step_and_rank(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run(str(folder), "--format", "csv"))))
    assert [(row["rank"], row["step"]) for row in rows] == [("0", "45"), ("1", "45"), ("0", "46"), ("1", "46")]
    assert float(rows[0]["busy_s"]) == pytest.approx(0.00081)


def test_top_limits_the_lists(folder: Path) -> None:
    analysis = json.loads(run(str(folder), "--format", "json", "--top", "1"))
    assert [len(analysis[key]) for key in ("top_kernels", "gaps", "ranges")] == [1, 1, 1]


def test_what_cannot_be_read_ends_the_command(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no profile in this folder"):
        run(str(tmp_path))
    with closing(sqlite3.connect(tmp_path / "notes.sqlite")) as other:
        other.execute("CREATE TABLE notes (text TEXT)")
        other.commit()
    with pytest.raises(UsageError, match=r"notes\.sqlite: an SQLite file, but not an export of nsys"):
        run(str(tmp_path / "notes.sqlite"))


def test_the_html_page_has_the_same_numbers(folder: Path) -> None:
    page = folder / "new" / "steps.html"
    found = json.loads(run(str(folder), "--html", str(page), "--format", "json"))
    text = page.read_text()
    assert text.startswith("<!doctype html>") and 'id="nsys-by-step"' in text and 'id="nsys-by-rank"' in text
    exposed = next(row for row in found["ranks"] if row["rank"] == 1)["exposed_s"]
    assert f'data-value="{1e3 * exposed}"' in text


def test_the_section_of_a_report_adds_up_to_the_step(folder: Path) -> None:
    section = make_section(analyze([folder]))
    chart = next(chart for chart in section.charts if chart.name == "by-step")
    shares = {series.name: [point.y for point in series.points] for series in chart.series}
    assert [point.x for point in chart.series[0].points] == [45, 46]
    for compute, exposed, idle, all_ in zip(
        shares["computing"], shares["exposed communication"], shares["idle"], shares["all"], strict=True
    ):
        assert None not in (compute, exposed, idle, all_)
        assert 0 < compute + exposed + idle <= all_ * 1.000001  # copies are neither  # type: ignore[operator]
    facts = {fact.name: fact for fact in section.facts}
    assert facts["exposed communication"].unit == "%" and facts["step"].unit == "ms"


def test_a_report_uses_the_analysis_of_the_run(folder: Path) -> None:
    (missing,) = plugin.report_sections(SPEC, folder)
    assert "llmbx nsys" in missing.text[0]
    (folder / "nsys_profile").mkdir()
    (folder / "nsys_profile" / "analysis.json").write_text(run(str(folder), "--format", "json"))
    (section,) = plugin.report_sections(SPEC, folder)
    assert section == make_section(analyze([folder]))


@pytest.mark.parametrize(
    ("column", "value"),
    [("start", "soon"), ("end", 1.5), ("end", "soon"), ("demangledName", 4.5), ("demangledName", b"\xff")],
)
def test_a_cell_of_another_type_is_a_damaged_profile(folder: Path, column: str, value: object) -> None:
    path = folder / "profile_rank0.sqlite"
    with closing(sqlite3.connect(path)) as profile, profile:
        profile.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {column} = ? WHERE rowid = 2", (value,))
    with pytest.raises(InfraError, match=r"profile_rank0.sqlite: damaged"):
        analyze([path])
