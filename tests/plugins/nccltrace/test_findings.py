"""Findings, figures and report section of a traced run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from llmbx.model import Finding, RunSpec
from llmbx.model.evidence import Evidence
from llmbx_nccltrace import plugin

from .lines import coll, head

SPEC = cast(RunSpec, None)
"""The trace is read from the folder, not from the specification."""


def findings(folder: Path) -> list[Finding]:
    """What the plugin's check finds in a folder."""
    (check,) = plugin.register_checks()
    return cast(list[Finding], check.test(Evidence(steps=(), run_dir=folder)))


def test_findings_and_the_whole_report_beside_the_log(tmp_path: Path) -> None:
    (tmp_path / "log-run.out").write_text(f"{coll()}\n{head('node9')}Channel 00/0 : 0[0] -> 8[0] via NET/Socket/0\n")
    summary, warning = findings(tmp_path)
    assert (
        summary.problem.startswith("1 call by 1 process on 1 host in 2 lines of 1 file") and "Socket" in summary.problem
    )
    assert warning.warning and "fallback to sockets" in warning.problem and "node9" in warning.problem
    assert json.loads((tmp_path / "nccl.json").read_text())["calls"] == 1


def test_many_warnings_are_counted_not_listed(tmp_path: Path) -> None:
    errors = [f"node1:{n}:1 [0] a.cc:1 NCCL WARN broken" for n in range(30)]
    (tmp_path / "log-run.out").write_text("\n".join([coll(), *errors]) + "\n")
    found = findings(tmp_path)
    assert len(found) == 7
    assert found[-1].problem == "6 more warnings in the trace"


def test_an_empty_trace_is_a_warning_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "log-run.out").write_text("step 1\n")
    (finding,) = findings(tmp_path)
    assert finding.warning and "empty" in finding.problem
    assert not (tmp_path / "nccl.json").exists()


def test_the_volume_of_each_step_is_a_comparable_figure(tmp_path: Path) -> None:
    line = "[2025-01-01 00:00:0{0}] iteration {0}/ 5 | consumed samples: 4 | elapsed time per iteration (ms): 9.1 |"
    lines = [coll(), line.format(1), coll(), coll(), line.format(2), coll(count=2048), line.format(3)]
    (tmp_path / "log-run.out").write_text("\n".join(lines) + "\n")
    volume, calls = plugin.figures(SPEC, tmp_path)
    assert (volume.name, volume.unit, volume.values) == ("communication_volume", "bytes", (2048.0, 4096.0, 4096.0))
    assert calls.values == (1.0, 2.0, 1.0) and volume.step_s is None


def test_an_empty_trace_has_no_figures(tmp_path: Path) -> None:
    (tmp_path / "log-run.out").write_text("step 1\n")
    assert plugin.figures(SPEC, tmp_path) == []


def test_a_report_has_the_trace_as_charts_and_tables_with_units(tmp_path: Path) -> None:
    lines = [coll(), coll("AllGather", count=1024), coll("AllGather", count=1024)]
    (tmp_path / "log-run.out").write_text(
        "\n".join([*lines, f"{head('node9')}Channel 00/0 : 0[0] -> 8[0] via NET/Socket/0"])
    )
    findings(tmp_path)
    (section,) = plugin.report_sections(SPEC, tmp_path)
    facts = {fact.name: (fact.value, fact.unit) for fact in section.facts}
    assert facts["transport"] == ("Socket", "") and facts["calls"] == (3, "calls")
    assert any("fallback to sockets" in line for line in section.warnings)
    (sizes,) = section.charts
    assert sum(point.y or 0 for point in sizes.series[0].points) == 3
    operations = next(table for table in section.tables if table.title == "operations")
    assert {row[0]: row[1] for row in operations.rows} == {"AllReduce": 1, "AllGather": 2}


def test_the_report_of_an_unanalyzed_trace_shows_the_command(tmp_path: Path) -> None:
    (section,) = plugin.report_sections(SPEC, tmp_path)
    assert f"llmbx nccl {tmp_path}" in section.text[0]
