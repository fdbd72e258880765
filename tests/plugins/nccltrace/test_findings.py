"""What a traced run's report says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from llmbx.model import RunSpec
from llmbx_nccltrace import plugin

from .lines import coll, head

SPEC = cast(RunSpec, None)
"""`analyze` reads the folder, not the specification."""


def test_findings_and_the_whole_report_beside_the_log(tmp_path: Path) -> None:
    (tmp_path / "log-run.out").write_text(f"{coll()}\n{head('node9')}Channel 00/0 : 0[0] -> 8[0] via NET/Socket/0\n")
    summary, warning = plugin.analyze(SPEC, tmp_path)
    assert (
        summary.problem.startswith("1 call by 1 process on 1 host in 2 lines of 1 file") and "Socket" in summary.problem
    )
    assert warning.warning and "fall-back to sockets" in warning.problem and "node9" in warning.problem
    assert json.loads((tmp_path / "nccl.json").read_text())["calls"] == 1


def test_many_warnings_are_counted_not_listed(tmp_path: Path) -> None:
    errors = [f"node1:{n}:1 [0] a.cc:1 NCCL WARN broken" for n in range(30)]
    (tmp_path / "log-run.out").write_text("\n".join([coll(), *errors]) + "\n")
    found = plugin.analyze(SPEC, tmp_path)
    assert len(found) == 7
    assert found[-1].problem == "6 more warnings of the trace"


def test_an_empty_trace_is_a_warning_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "log-run.out").write_text("step 1\n")
    (finding,) = plugin.analyze(SPEC, tmp_path)
    assert finding.warning and "empty" in finding.problem
    assert not (tmp_path / "nccl.json").exists()


def test_the_volume_of_each_step_is_a_figure_that_runs_can_be_compared_by(tmp_path: Path) -> None:
    line = "[2025-01-01 00:00:0{0}] iteration {0}/ 5 | consumed samples: 4 | elapsed time per iteration (ms): 9.1 |"
    lines = [coll(), line.format(1), coll(), coll(), line.format(2), coll(count=2048), line.format(3)]
    (tmp_path / "log-run.out").write_text("\n".join(lines) + "\n")
    volume, calls = plugin.figures(SPEC, tmp_path)
    assert (volume.name, volume.unit, volume.values) == ("communication_volume", "bytes", (2048.0, 4096.0, 4096.0))
    assert calls.values == (1.0, 2.0, 1.0) and volume.step_s is None


def test_an_empty_trace_has_no_figures(tmp_path: Path) -> None:
    (tmp_path / "log-run.out").write_text("step 1\n")
    assert plugin.figures(SPEC, tmp_path) == []
