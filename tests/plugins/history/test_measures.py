"""`llmbx jobs` with measures: columns, conditions and order by name, also after the index was rebuilt."""

from __future__ import annotations

import json

import pytest

from llmbx.errors import UsageError
from llmbx.model import Measure
from llmbx.record.folder import RESULT
from llmbx_history.values import flatten

from ...run_factory import RunFactory, noise
from .conftest import Jobs

IMAGES = Measure(name="images", unit="images", kind="count")
RATE = "measures.images.per_second"


@pytest.fixture
def runs(run_factory: RunFactory) -> list[str]:
    """A run without the measure, and three with 10, 30 and 20 images per step of 1 s."""
    made = [run_factory.put([1.0] * 50)]
    made += [run_factory.put([1.0] * 50, measures=((IMAGES, [images] * 50),)) for images in (10.0, 30.0, 20.0)]
    return [run.record.run_id for run in made]


def test_columns_order_and_conditions_take_measures_by_name(jobs: Jobs, runs: list[str]) -> None:
    none, ten, thirty, twenty = runs
    done = jobs("--columns", f"run_id,{RATE},measures.images.unit", "--sort", f"-{RATE}", "--format", "json")
    listed = [(row["run_id"], row[RATE], row["measures.images.unit"]) for row in json.loads(done.stdout)]
    assert listed == [(thirty, 30, "images"), (twenty, 20, "images"), (ten, 10, "images"), (none, None, None)]
    for condition, expected in (
        (f"{RATE} >= 20", [thirty, twenty]),
        (f"{RATE} BETWEEN 5 AND 15 and measures.images.unit = 'images'", [ten]),
        (f"{RATE} IS NULL", [none]),
        (f"{RATE} * step_time_s.mean > 25", [thirty]),
        ("'imag' in measures.images.unit and measures.images.steps = 34 and measures.images.mean < 25", [ten, twenty]),
    ):
        found = json.loads(jobs("--where", condition, "--columns", "run_id", "--format", "json").stdout)
        assert {row["run_id"] for row in found} == {*expected}, condition
    assert jobs("--where", f"{RATE} > 25", "--columns", RATE, "--format", "csv").stdout == f"{RATE}\n30.0\n"


def test_the_whole_row_has_the_measures(jobs: Jobs, runs: list[str]) -> None:
    rows = {row["run_id"]: row["measures"] for row in json.loads(jobs("--format", "json").stdout)}
    assert rows[runs[0]] == {}
    assert (rows[runs[1]]["images"]["mean"], rows[runs[1]]["images"]["kind"]) == (10, "count")


@pytest.mark.parametrize("option", ["--columns", "--sort", "--where"])
def test_a_misspelled_measure_is_refused(jobs: Jobs, runs: list[str], option: str) -> None:
    text = "measures.imges.mean > 1" if option == "--where" else "measures.imges.mean"
    with pytest.raises(UsageError, match=r"no run has the measure 'imges' \(did you mean 'images'\?\)"):
        jobs(option, text)
    with pytest.raises(UsageError, match="no column named"):
        jobs(option, text.replace("mean", "average"))
    assert jobs("--where", "cause = 'measures.imges.mean'").exit_code == 0, "a string"


def test_a_measure_is_compared_with_what_it_is(jobs: Jobs, runs: list[str]) -> None:
    with pytest.raises(UsageError, match="is not text, and is compared with 'fast'"):
        jobs("--where", f"{RATE} = 'fast'")


def test_damaged_measures_do_not_enter_the_index(jobs: Jobs, run_factory: RunFactory) -> None:
    run = run_factory.put(noise(1, 1.0), measures=((IMAGES, [1.0] * 50),))
    path = run.path / RESULT
    content = json.loads(path.read_text())
    good = content["measures"]["images"]
    content["measures"] = {"images": {**good, "mean": "much", "extra": [1]}, "X'); DROP": good, "other": 3}
    path.write_text(json.dumps(content))
    (row,) = json.loads(jobs("--format", "json").stdout)
    assert row["measures"].keys() == {"images"} and row["measures"]["images"]["mean"] is None
    assert row["measures"]["images"]["per_second"] == pytest.approx(good["per_second"])
    assert flatten({"measures": [1, 2]}) == {"measures": None}
