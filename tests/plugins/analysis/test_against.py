"""`run --against`: the order of the runs, what is refused before anything starts, and how the command ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from click.testing import CliRunner

from llmbx.cli.run import RunCall, command
from llmbx.errors import LlmbxError, UsageError
from llmbx.model import ProfileSpec, Result, RunSpec
from llmbx.model.result import StepTime
from llmbx.plugins.manager import load
from llmbx.record.folder import Run
from llmbx.run.pipeline import exit_code
from llmbx_analysis.cli import against

from ...run_factory import RunFactory, install, noise, run_factory, spec

__all__ = ["install", "run_factory", "spec"]

Pair = tuple[int, Literal["a", "b"]]
Start = Callable[[RunSpec, str | None, str, Pair], tuple[Result, int]]


class Call(RunCall):
    """`llmbx run` whose runs are those of `start`, which end at once."""

    runs: Start

    def start(self, spec: RunSpec, source: str | None, group: str, pair: Pair) -> tuple[Result, int]:
        return self.runs(spec, source, group, pair)


def asked(factory: RunFactory, spec: RunSpec, start: Start | None = None, **changes: Any) -> RunCall:
    """What `llmbx run` was asked for."""
    values: dict[str, Any] = {
        "spec": spec, "workspace": SimpleNamespace(plugins=load(), install=factory.install), "source": None,
        "preview": None, "repeat": 1, "detach": False, "offline": False, "force": False, "allowed": 0.05,
        "format": "text",
    }  # fmt: skip
    call = Call(**{**values, **changes})
    object.__setattr__(call, "runs", start)
    return call


def test_the_sides_alternate_and_neither_is_always_second(run_factory: RunFactory, spec: RunSpec) -> None:
    earlier = run_factory.put(noise(1, 1.0), recipe="old")
    planned = list(against.jobs(spec, earlier, 4, None))
    assert "".join(job.side for job in planned) == "abbaabba"
    assert [job.pair for job in planned] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert {(job.spec.recipe, job.source) for job in planned if job.side == "a"} == {("old", earlier.record.run_id)}
    assert all(job.spec == spec for job in planned if job.side == "b")


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
        against.check(asked(run_factory, spec.replace(**changes)), earlier)
    assert says in str(error.value)
    against.check(asked(run_factory, spec.replace(**changes), force=True), earlier)


@pytest.mark.parametrize("changes", [{"data_valid": False}, {"status": "failed"}])
def test_an_earlier_run_without_valid_data_is_refused(
    run_factory: RunFactory, spec: RunSpec, changes: dict[str, Any]
) -> None:
    earlier = run_factory.put(noise(1, 1.0), result={**changes, "cause": "the loss is not finite"})
    with pytest.raises(UsageError, match="no valid data: the loss is not finite"):
        against.check(asked(run_factory, spec), earlier)


def starts(runs: list[Run], **changes: Any) -> Start:
    """A start that ends at once, with the next of these runs; the last one has the `changes`."""
    left = list(runs)

    def start(spec: RunSpec, source: str | None, group: str, pair: Pair) -> tuple[Result, int]:
        name = left.pop(0).record.run_id
        base = Result(run_id=name, status="completed", data_valid=True, step_time_s=StepTime(mean=1.0))
        result = base.replace(**changes) if not left or changes else base
        return result, exit_code(result)

    return start


def test_both_sides_are_compared_in_their_order(
    run_factory: RunFactory, spec: RunSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [run_factory.put(noise(k, 2.0 if k in (2, 3) else 1.0)) for k in range(5)]
    planned = list(against.jobs(spec, runs[0], 2, None))
    assert against.alternate(asked(run_factory, spec, starts(runs[1:])), planned) == 3
    out, err = capsys.readouterr()
    assert "slower" in out and "pair 2 of 2, side B: step time 1 s" in err
    assert against.alternate(asked(run_factory, spec, starts(runs[1:]), format="json"), planned) == 3
    found = json.loads(capsys.readouterr().out)
    assert [result["run_id"] for result in found["results"]] == [run.record.run_id for run in runs[1:]]
    comparison = found["comparison"]
    assert comparison["verdict"] == "slower"
    names = {side: [Path(name).name for name in comparison[side]["runs"]] for side in "ab"}
    assert names == {
        "a": [runs[1].record.run_id, runs[4].record.run_id],
        "b": [runs[2].record.run_id, runs[3].record.run_id],
    }


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
    planned = list(against.jobs(spec, runs[0], 1, None))
    call = asked(run_factory, spec, starts(runs[1:], **changes), format="json")
    assert against.alternate(call, planned) == code
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
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    done = CliRunner().invoke(command, typed)
    assert isinstance(done.exception, LlmbxError), done.output
    assert str(done.exception).startswith(says)
