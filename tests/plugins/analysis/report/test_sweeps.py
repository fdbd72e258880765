"""Reports on sweeps: the runs are grouped by cell."""

from __future__ import annotations

import json

import pytest

from llmbx.config.install import Install
from llmbx.errors import UsageError
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Run, SweepMark
from llmbx_sweep import plugin, store
from llmbx_sweep.cells import Cell

from ....run_factory import RunFactory, noise
from .conftest import Command


@pytest.fixture
def sweep(run_factory: RunFactory, install: Install, plugins: Plugins) -> store.Sweep:
    """Two scales, two repeats each."""
    plugins.manager.register(plugin, name="sweep")
    cells = tuple(Cell(key=f"line {gpus}", spec=run_factory.spec.replace(gpus=gpus), repeats=2) for gpus in (8, 16))
    return store.create(install, "nightly", ("sweep", "line"), cells, 10)


def put(run_factory: RunFactory, sweep: store.Sweep, gpus: int, repeat: int, mean: float, valid: bool = True) -> Run:
    mark = SweepMark(sweep_id=sweep.sweep_id, cell=f"line {gpus}", repeat=repeat)
    return run_factory.put(noise(gpus + repeat, mean), gpus=gpus, valid=valid, record={"sweep": mark})


def test_a_sweep_is_reported_by_cell_and_missing_runs_are_noted(
    run_factory: RunFactory, sweep: store.Sweep, command: Command, install: Install
) -> None:
    for repeat in (1, 2):
        put(run_factory, sweep, 8, repeat, 1.0)
    put(run_factory, sweep, 16, 1, 0.6)
    run_factory.put(noise(9, 3.0))
    for text in (sweep.sweep_id, "nightly", str(store.folder(install, sweep))):
        found = json.loads(command(text, "--format", "json").stdout)
        assert [verdict["cell"] for verdict in found["verdicts"]] == ["line 8", "line 16"]
        assert len(found["results"]) == 3
        assert found["notes"] == [f"{sweep.sweep_id}: 1 of 4 runs have not started (line 16)"]
        assert "scaling" in [section["name"] for section in found["sections"]]


def test_a_run_that_was_repeated_successfully_is_left_out(
    run_factory: RunFactory, sweep: store.Sweep, command: Command
) -> None:
    put(run_factory, sweep, 8, 1, 1.0, valid=False)
    put(run_factory, sweep, 8, 1, 1.0)
    put(run_factory, sweep, 8, 2, 1.0)
    put(run_factory, sweep, 16, 1, 0.6, valid=False)
    put(run_factory, sweep, 16, 2, 0.6)
    found = json.loads(command(sweep.sweep_id, "--format", "json").stdout)
    assert [(v["cell"], v["tone"]) for v in found["verdicts"]] == [("line 8", "good"), ("line 16", "bad")]
    assert found["notes"] == [f"{sweep.sweep_id}: 1 earlier runs left out: their slots have a completed run"]


def test_a_sweep_without_runs_is_rejected(sweep: store.Sweep, command: Command) -> None:
    with pytest.raises(UsageError, match="no run of this sweep has started"):
        command(sweep.sweep_id)
