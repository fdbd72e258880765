"""What the frameworks really used is compared first: the final configurations of both runs."""

from __future__ import annotations

import json
from typing import Any

from llmbx.record.folder import Run

from ....run_factory import RunFactory, noise
from .test_compare import Compare, compare, read

__all__ = ["compare"]


def configured(factory: RunFactory, seed: int, **final: Any) -> Run:
    run = factory.put(noise(seed, 1.0))
    (run.path / "configs").mkdir()
    values = {"trainer.folder": f"{run.path}/checkpoints", "log.name": run.record.run_id, **final}
    (run.path / "configs" / "final.json").write_text(json.dumps({"final": values}))
    return run


def test_keys_that_differ_are_listed_before_the_figures(run_factory: RunFactory, compare: Compare) -> None:
    a = configured(run_factory, 1, overlap=True, layers=[1, 2], removed=1)
    b = configured(run_factory, 2, overlap=False, layers=[1, 3])
    done = compare(a.record.run_id, b.record.run_id)
    for line in ("final configuration overlap: True -> False", "final configuration layers: [1, 2] -> [1, 3]",
                 "final configuration removed: 1 -> unset"):  # fmt: skip
        assert line in done.stdout
    assert done.stdout.index("final configuration overlap") < done.stdout.index("step time [s]")
    assert done.stdout.index("step time [s]") < done.stdout.index("equivalent: ")


def test_paths_and_names_of_the_own_run_are_not_differences(run_factory: RunFactory, compare: Compare) -> None:
    a, b = configured(run_factory, 1, overlap=True), configured(run_factory, 2, overlap=True)
    assert read(compare(a.record.run_id, b.record.run_id, "--format", "json"))["differences"] == []


def test_a_configuration_on_one_side_only_is_a_difference(run_factory: RunFactory, compare: Compare) -> None:
    a, b = run_factory.put(noise(1, 1.0)), configured(run_factory, 2, overlap=True)
    (found,) = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))["differences"]
    assert (found["what"], found["a"], found["b"]) == ("final configuration", "unknown", "known")
    (a.path / "configs").mkdir()
    (a.path / "configs" / "final.json").write_text("{damaged")
    (again,) = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))["differences"]
    assert again["a"] == "unknown"
