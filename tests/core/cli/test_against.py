"""`run --against`: the order of the runs, what is refused before anything starts, and how the command ends."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llmbx.cli import against, run
from llmbx.errors import UsageError
from llmbx.model import ComparisonOutcome, ProfileSpec, Result, RunSpec
from llmbx.model.result import StepTime
from llmbx.record.folder import Run

from ...run_factory import RunFactory, install, noise, run_factory, spec
from .test_explicit_options import refusal

__all__ = ["install", "run_factory", "spec"]


class Comparing:
    """Plugins of which one compares runs; it remembers the folders."""

    def __init__(self, outcome: ComparisonOutcome | None = None) -> None:
        self.outcome, self.seen = outcome, []  # type: ignore[var-annotated]

    def compares_sides(self) -> bool:
        return self.outcome is not None

    def compare_sides(self, a: list[Path], b: list[Path], tolerance: float) -> ComparisonOutcome:
        self.seen.append((a, b, tolerance))
        assert self.outcome is not None
        return self.outcome


SLOWER = ComparisonOutcome(verdict="slower", exit_code=3, text="slower: by far\n", data={"verdict": "slower"})


def workspace(factory: RunFactory, outcome: ComparisonOutcome | None = SLOWER) -> Any:
    return SimpleNamespace(plugins=Comparing(outcome), install=factory.install)


def test_the_sides_alternate_and_neither_is_always_second(run_factory: RunFactory, spec: RunSpec) -> None:
    earlier = run_factory.put(noise(1, 1.0), recipe="old")
    planned = list(against.jobs(spec, earlier, 4, None))
    assert "".join(job.pair.side for job in planned) == "abbaabba"
    assert [job.pair.number for job in planned] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert {(job.spec.recipe, job.source) for job in planned if job.pair.side == "a"} == {
        ("old", earlier.record.run_id)
    }
    assert all(job.spec == spec for job in planned if job.pair.side == "b")
    assert len({job.group for job in planned}) == 2 and len({job.pair.group for job in planned}) == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"global_batch_size": 128}, "the global batch size differs (64 and 128)"),
        ({"dtype": "fp8"}, "the dtype differs"),
        ({"profile": ProfileSpec(start=1, stop=2, tool="t")}, "the requested run is profiled or traced"),
    ],
)
def test_what_gives_no_verdict_is_refused_before_the_first_run(
    run_factory: RunFactory, spec: RunSpec, changes: dict[str, Any], says: str
) -> None:
    earlier = run_factory.put(noise(1, 1.0))
    with pytest.raises(UsageError) as error:
        against.check(spec.replace(**changes), earlier, workspace(run_factory), force=False)
    assert says in str(error.value)
    against.check(spec.replace(**changes), earlier, workspace(run_factory), force=True)
    with pytest.raises(UsageError, match="needs a plugin that compares runs"):
        against.check(spec, earlier, workspace(run_factory, None), force=True)


@pytest.mark.parametrize("changes", [{"data_valid": False}, {"status": "failed"}])
def test_an_earlier_run_without_valid_data_is_refused(
    run_factory: RunFactory, spec: RunSpec, changes: dict[str, Any]
) -> None:
    earlier = run_factory.put(noise(1, 1.0), result={**changes, "cause": "the loss is not finite"})
    with pytest.raises(UsageError, match="no valid data: the loss is not finite"):
        against.check(spec, earlier, workspace(run_factory), force=False)


def starts(runs: list[Run], **changes: Any) -> Any:
    """A start that ends at once, with the next of these runs."""
    left = list(runs)

    def start(spec: RunSpec, **_: Any) -> Result:
        name = left.pop(0).record.run_id
        base = Result(run_id=name, status="completed", data_valid=True, step_time_s=StepTime(mean=1.0))
        return base.replace(**changes) if not left or changes else base

    return start


def test_both_sides_are_compared_in_their_order(
    run_factory: RunFactory, spec: RunSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [run_factory.put(noise(k, 1.0)) for k in range(5)]
    place = workspace(run_factory)
    planned = list(against.jobs(spec, runs[0], 2, None))
    assert against.alternate(starts(runs[1:]), planned, place, 0.05, "text") == 3
    ((a, b, tolerance),) = place.plugins.seen
    assert a == [runs[1].path, runs[4].path] and b == [runs[2].path, runs[3].path] and tolerance == 0.05
    out, err = capsys.readouterr()
    assert out == "slower: by far\n"
    assert "pair 2 of 2, side B: step time 1 s" in err
    assert against.alternate(starts(runs[1:]), planned, place, 0.05, "json") == 3
    found = json.loads(capsys.readouterr().out)
    assert len(found["results"]) == 4 and found["comparison"] == {"verdict": "slower"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"status": "failed", "data_valid": False}, 1),
        ({"status": "node_fail", "data_valid": False}, 4),
        ({"status": "cancelled", "exit_code": 130, "data_valid": False}, 130),
    ],
)
def test_a_run_that_fails_ends_the_command_without_a_comparison(
    run_factory: RunFactory, spec: RunSpec, changes: dict[str, Any], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [run_factory.put(noise(k, 1.0)) for k in range(3)]
    place = workspace(run_factory)
    planned = list(against.jobs(spec, runs[0], 1, None))
    assert against.alternate(starts(runs[1:], **changes), planned, place, 0.05, "json") == code
    assert place.plugins.seen == []
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert len(found["results"]) == 1 and found["comparison"] is None
    assert "no comparison: " in err


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("--from", "x", "--against", "y"), "no run 'x'"),
        (("--against", "y"), "no workload specified"),
    ],
)
def test_the_runs_are_looked_for_first(
    typed: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert refusal(monkeypatch, tmp_path, run.command, *typed).startswith(says)
