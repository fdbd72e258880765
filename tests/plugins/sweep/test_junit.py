"""The cells of a sweep as JUnit XML."""

from __future__ import annotations

from collections.abc import Callable

import junitparser
import pytest

from llmbx.cli.workspace import Workspace
from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.model import RunSpec
from llmbx.plugins.manager import Plugins
from llmbx_sweep.cases import print_cells
from llmbx_sweep.cells import Cell
from llmbx_sweep.summary import summarize

from ...run_factory import install, plugins, spec, toy
from .conftest import made_result

__all__ = ["install", "plugins", "spec", "toy"]


def test_every_cell_is_a_case(
    make_cell: Callable[..., Cell], spec: RunSpec, plugins: Plugins, install: Install,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    good, bad, lost, part, none = cells = [make_cell(gpus=gpus, repeats=2) for gpus in (1, 2, 4, 8, 16)]
    oom = made_result("r_2", 99.0, status="out_of_memory", data_valid=False, cause="rank 3: CUDA out of memory")
    results = {
        (good.key, 1): made_result(), (good.key, 2): made_result(mean=3.0),
        (bad.key, 1): made_result(), (bad.key, 2): oom,
        (lost.key, 1): made_result(status="lost", cause="the job is gone"), (lost.key, 2): made_result(),
        (part.key, 1): made_result(),
    }  # fmt: skip
    print_cells("junit", cells, results, summarize(cells, results), Workspace(plugins, Config(), {}, install), 0.05)
    (suite,) = junitparser.JUnitXml.fromroot(junitparser.junitparser.etree.fromstring(capsys.readouterr().out.encode()))
    found = {case.name: (case.result[0].type, case.result[0].message) if case.result else None for case in suite}
    assert found == {
        good.key: None,
        bad.key: ("out_of_memory", "rank 3: CUDA out of memory"),
        lost.key: ("lost", "the job is gone"),
        part.key: ("missing", "1 of 2 runs done"),
        none.key: ("missing", "0 of 2 runs done"),
    }
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (5, 1, 1, 2)
    assert "step_time_s: 2 s" in next(iter(suite)).system_out.splitlines()
