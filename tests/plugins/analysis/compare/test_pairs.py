"""Runs of both sides that alternated: the differences of the pairs decide, not the drift of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from llmbx.record.folder import PairMark, Run, write_record
from llmbx_analysis.compare.folders import compare_folders
from llmbx_analysis.compare.render import render

from ....run_factory import RunFactory, noise
from .test_compare import Compare, compare, read, verdict_of

__all__ = ["compare"]


def alternate(factory: RunFactory, pairs: int, slower: float, drift: float, group: str = "g") -> dict[str, list[Run]]:
    """A B, B A, A B …; each run is slower than the one before by `drift`, B slower than A by `slower`."""
    sides: dict[str, list[Run]] = {"a": [], "b": []}
    started = 0
    for number in range(1, pairs + 1):
        for side in "ab" if number % 2 else "ba":
            mean = (1 + drift) ** started * (1 + slower if side == "b" else 1)
            mark = PairMark(group=group, number=number, side="a" if side == "a" else "b")
            extra = {"group": f"{group} {side}", "pair": mark}
            sides[side].append(factory.put(noise(started, mean), record=extra))
            started += 1
    return sides


def folders(runs: Sequence[Run]) -> list[Path]:
    return [run.path for run in runs]


def names(sides: dict[str, list[Run]]) -> list[str]:
    return [sides[side][-1].record.run_id for side in "ab"]


@pytest.mark.parametrize(
    ("pairs", "slower", "verdict", "code"),
    [(4, 0.0, "equivalent", 0), (4, 0.12, "slower", 3), (6, 0.03, "equivalent", 0), (5, -0.12, "faster", 0)],
)
def test_an_even_drift_does_not_decide(
    run_factory: RunFactory, compare: Compare, pairs: int, slower: float, verdict: str, code: int
) -> None:
    """The machine gets 2 % slower with every run; without the pairs the runs of each side scatter by 5 % and more."""
    done = compare(*names(alternate(run_factory, pairs, slower, 0.02)), "--format", "json")
    found = read(done)
    assert (found["verdict"], done.exit_code) == (verdict, code)
    assert found["change"]["over"] == "pairs"
    assert found["change"]["fraction"] == pytest.approx(slower, abs=0.006)
    assert len(found["a"]["runs"]) == len(found["b"]["runs"]) == pairs
    assert not any("partner" in line for line in found["warnings"])


def test_without_the_pairs_the_drift_would_hide_the_difference(run_factory: RunFactory, compare: Compare) -> None:
    sides = alternate(run_factory, 4, 0.12, 0.02)
    for side in "ab":
        for run in sides[side]:
            write_record(run.path, run.record.replace(pair=None))
    found = read(compare(*names(sides), "--format", "json"))
    assert (found["verdict"], found["change"]["over"]) == ("inconclusive", "repeats")


def test_a_run_without_its_partner_is_left_out(run_factory: RunFactory, compare: Compare) -> None:
    sides = alternate(run_factory, 4, 0.12, 0.02)
    (sides["b"][1].path / "result.json").write_text(
        (sides["b"][1].path / "result.json").read_text().replace('"data_valid": true', '"data_valid": false')
    )
    found = read(compare(*names(sides), "--format", "json"))
    assert found["change"]["over"] == "pairs"
    assert "1 of 7 runs have no partner on the other side and do not count" in found["warnings"]


def test_an_inconclusive_difference_says_how_many_pairs_would_decide(
    run_factory: RunFactory, compare: Compare
) -> None:  # fmt: skip
    sides = alternate(run_factory, 2, 0.03, 0.02)
    done = compare(*names(sides), "--tolerance", "1%")
    assert done.exit_code == 5
    assert "pairs (--interleave " in verdict_of(done)


def test_one_pair_is_compared_as_two_single_runs(run_factory: RunFactory, compare: Compare) -> None:
    found = read(compare(*names(alternate(run_factory, 1, 0.1, 0.0)), "--format", "json"))
    assert (found["verdict"], found["change"]["over"]) == ("slower", "steps")
    assert found["change"]["prior"] > 0.01


@pytest.mark.parametrize(("slower", "verdict", "code"), [(0.0, "equivalent", 0), (0.12, "slower", 3)])
def test_core_gets_the_verdict_of_the_folders(
    run_factory: RunFactory, slower: float, verdict: str, code: int
) -> None:  # fmt: skip
    sides = alternate(run_factory, 4, slower, 0.01)
    comparison = compare_folders(folders(sides["a"]), folders(sides["b"]), 0.05, run_factory.install)
    assert (comparison.verdict, comparison.exit_code) == (verdict, code)
    assert render(comparison).rstrip().rpartition("\n\n")[2].startswith(f"{verdict}: ")
    assert comparison.change is not None and comparison.change.over == "pairs"


def test_one_pair_of_interleaved_runs_varies_as_earlier_repeats_did(run_factory: RunFactory) -> None:
    """Five repeats of the work that differ by 4 % show that a pair that differs by 6 % says little."""
    for number, mean in enumerate((0.96, 1.0, 1.04, 0.98, 1.02)):
        run_factory.put(noise(number, mean))
    sides = alternate(run_factory, 1, 0.06, 0.0)
    comparison = compare_folders(folders(sides["a"]), folders(sides["b"]), 0.05, run_factory.install)
    assert comparison.change is not None
    assert (comparison.change.over, comparison.change.prior_runs, comparison.verdict) == ("steps", 5, "inconclusive")
    assert "that of 5 earlier repeats of this work on this machine" in " ".join(render(comparison).split())
