"""Old runs measured anew: `llmbx parse RUN --window …`, with and without --save."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

import llmbx.plugins.manager
from llmbx.cli import workspace
from llmbx.cli.main import cli
from llmbx.config.install import Install
from llmbx.errors import LlmbxError, UsageError
from llmbx.model import Measure, ProfileSpec
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import RESULT, STEPS, read_result
from llmbx.run.remeasure import save_window

from ...run_factory import FLOPS, PEAK, RunFactory, install, noise, plugins, run_factory, spec, toy

__all__ = ["install", "plugins", "run_factory", "spec", "toy"]

Call = Callable[..., Result]


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch, install: Install, plugins: Plugins) -> Call:
    monkeypatch.setattr(workspace, "install_and_plugins", lambda: (install, lambda: plugins))
    monkeypatch.setattr(llmbx.plugins.manager, "load", lambda: plugins)

    def invoke(*arguments: str) -> Result:
        done = CliRunner().invoke(cli, ["parse", *arguments])
        if isinstance(done.exception, LlmbxError):
            raise done.exception
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return invoke


def one(done: Result) -> dict[str, Any]:
    (row,) = json.loads(done.stdout)
    found: dict[str, Any] = row
    return found


@pytest.mark.parametrize("window", ["20-29", "last", "auto"])
def test_another_window_is_exact_and_leaves_the_result_alone(run_factory: RunFactory, parse: Call, window: str) -> None:
    times = noise(1, 2.0)
    run = run_factory.put(times)
    before = {name: (run.path / name).read_bytes() for name in (RESULT, STEPS, "run.json")}
    row = one(parse(run.record.run_id, "--window", window, "--format", "json"))
    first, last = map(int, row["window"].split("-"))
    inside = times[first : last + 1]
    assert (first, last) == {"20-29": (20, 29), "last": (49, 49), "auto": (16, 49)}[window]
    assert row["step_time_mean_s"] == pytest.approx(statistics.fmean(inside), rel=1e-12)
    assert row["step_time_std_s"] == (pytest.approx(statistics.stdev(inside), rel=1e-9) if len(inside) > 1 else None)
    rate = run_factory.spec.tokens_per_step / statistics.fmean(inside)
    assert row["tokens_per_s"] == pytest.approx(rate)
    assert row["mfu"] == pytest.approx(FLOPS.full * 64 / statistics.fmean(inside) / 8 / PEAK.tflops / 1e12)
    assert {name: (run.path / name).read_bytes() for name in before} == before


def test_profiled_steps_and_the_one_that_writes_the_profile_stay_out(run_factory: RunFactory, parse: Call) -> None:
    """Steps 20 to 23 are profiled, 24 waits for the file: all five take much longer."""
    times = [9.0 if 20 <= k <= 24 else 2.0 for k in range(50)]
    run = run_factory.put(times, profile=ProfileSpec(tool="nsys", start=20, stop=24))
    for window in ("15-30", "auto", "20-25"):
        row = one(parse(run.folder, "--window", window, "--format", "json"))
        assert row["step_time_mean_s"] == 2.0, window
    assert parse(run.folder, "--window", "20-24").exit_code == 1


def test_the_log_itself_is_not_needed_any_more(run_factory: RunFactory, parse: Call) -> None:
    run = run_factory.put(noise(1, 2.0))
    assert not run.log.exists()
    row = one(parse("last", "--format", "json"))
    assert (row["window"], row["steps_measured"], row["status"]) == ("11-44", 34, "Success")
    steady = row["steady"]
    assert (steady["window"], steady["steps_measured"]) == ("16-49", 34)
    assert "dropped as warm-up" in steady["window_reason"]


def test_save_keeps_the_other_window(run_factory: RunFactory, parse: Call) -> None:
    times = noise(1, 2.0)
    run = run_factory.put(times, result={"warnings": ("the image was not verified",)})
    done = parse(run.record.run_id, "--window", "20-29", "--save")
    assert f"saved in {run.path / RESULT}" in done.stderr
    result = read_result(run.path)
    assert result is not None
    assert (result.window.first, result.window.last, result.window.policy) == (20, 29, "20-29")
    assert (result.steps_measured, result.steps_seen, result.status) == (10, 50, "completed")
    assert result.step_time_s.mean == pytest.approx(statistics.fmean(times[20:30]))
    assert "the image was not verified" in result.warnings


def test_save_judges_the_new_window(run_factory: RunFactory, parse: Call) -> None:
    times = noise(1, 2.0)
    times[30] = 6.0
    run = run_factory.put(times)
    before = read_result(run.path)
    assert before is not None and before.stability.verdict == "outliers"
    assert "step 30 (" in (before.stability.reason or "")
    assert not any("outlier" in line for line in before.warnings)
    parse(run.record.run_id, "--window", "32-44", "--save")
    after = read_result(run.path)
    assert after is not None and after.stability.verdict == "stable"
    assert "outlier" not in (after.stability.reason or "")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("last", "--save"), "--save requires --window"),
        (("last", "--window", "60-70", "--save"), "window 60-70 measures nothing (the log ends at step 49); not saved"),
        (("no-such-run",), "no-such-run: no such file or folder, and no run 'no-such-run'"),
        (("some/where",), "some/where: no such file or folder"),
    ],
)
def test_what_cannot_be_done_is_said(
    run_factory: RunFactory, parse: Call, arguments: tuple[str, ...], why: str
) -> None:
    run = run_factory.put(noise(1, 2.0))
    before = (run.path / RESULT).read_bytes()
    with pytest.raises(UsageError) as error:
        parse(*arguments)
    assert why in str(error.value)
    assert (run.path / RESULT).read_bytes() == before


def test_a_run_that_goes_on_has_nothing_to_save(run_factory: RunFactory, parse: Call) -> None:
    run = run_factory.put(noise(1, 2.0))
    (run.path / RESULT).unlink()
    run.log.write_text("")
    with pytest.raises(UsageError, match="is not the log of a finished run of llmbx"):
        parse(run.record.run_id, "--window", "auto", "--save")


def test_damaged_steps_are_told(run_factory: RunFactory) -> None:
    from llmbx.record.folder import read_steps

    run = run_factory.put(noise(1, 2.0))
    (run.path / STEPS).write_bytes(b'{"number": 1}\n{"number":\n')
    with pytest.raises(LlmbxError, match=r"steps\.jsonl: line 2 is not a valid step"):
        read_steps(run.path)


def test_measures_are_measured_again_over_another_window(run_factory: RunFactory, plugins: Plugins) -> None:
    images = Measure(name="images", unit="images", kind="count", better="higher", help="Images.")
    run = run_factory.put([1.0] * 30 + [2.0] * 20, measures=((images, [10.0] * 48),))
    result = read_result(run.path)
    assert result is not None and result.measures["images"].per_second == pytest.approx(340 / 49)
    changed = save_window(run, result, plugins, "31-40")
    assert (changed.measures["images"].per_second, changed.measures["images"].help) == (5.0, "Images.")
    assert read_result(run.path) == changed
    last = save_window(run, changed, plugins, "45-49")
    assert [line for line in last.warnings if "measure" in line] == [
        "only 3 of the 5 measured steps have the measure images"
    ]
    assert [line for line in save_window(run, last, plugins, "31-40").warnings if "measure" in line] == []


@pytest.mark.parametrize("damage", ["cut", "not a step"])
def test_damaged_steps_are_named(run_factory: RunFactory, parse: Call, damage: str) -> None:
    """The factory writes no log, so that what is left of the steps is all there is."""
    run = run_factory.put(noise(1, 2.0))
    lines = (run.path / STEPS).read_text().splitlines(keepends=True)
    kept = lines[:30] if damage == "cut" else [*lines[:29], "[1, 2]\n", *lines[30:]]
    (run.path / STEPS).write_text("".join(kept))
    row = one(parse(run.record.run_id, "--window", "11-20", "--format", "json"))
    said = (
        f"steps.jsonl has 30 of {len(lines)} steps" if damage == "cut" else "steps.jsonl: line 30 is not a valid step"
    )
    assert any(said in note for note in row["notes"])
    assert row["steps_measured"] == (10 if damage == "cut" else 0)
