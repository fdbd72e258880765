"""The beginning of a report: the verdict in one sentence, key figures, and what ran where and when."""

from __future__ import annotations

import re

import pytest

from llmbx.model import Reference
from llmbx_analysis.report.html import MOST_NAMES, render
from llmbx_analysis.report.overview import MOST, Overview

from ....run_factory import RunFactory, Toy, noise
from .conftest import Reporter

STABLE = {"stability": {"verdict": "stable"}}


def beginning(reporter: Reporter, *runs: object, **options: object) -> Overview:
    found = reporter.report(*runs, **options).overview  # type: ignore[arg-type]
    assert found is not None
    return found


def test_one_run_begins_with_its_key_figures_and_where_it_ran(run_factory: RunFactory, reporter: Reporter) -> None:
    run = run_factory.put(noise(1, 2.0), launcher="local")
    found = beginning(reporter, run)
    assert [fact.name for fact in found.facts] == [
        "step time", "throughput", "throughput per GPU", "compute per GPU", "MFU"
    ]  # fmt: skip
    assert found.verdict is None
    context = dict(found.context)
    assert context["workload"] == "line 1b bf16, 8 × h100"
    assert context["machine"] == "node1 (launcher local)"
    assert context["software"].startswith("toy:1 (torch 2.8.0)")
    assert context["started"] == "2023-11-14 22:13:21 UTC"
    assert context["runs"] == run.record.run_id


def test_a_host_that_only_submitted_the_job_is_not_its_machine(run_factory: RunFactory, reporter: Reporter) -> None:
    found = beginning(reporter, run_factory.put(noise(1, 2.0), launcher="elsewhere"))
    assert dict(found.context)["machine"] == "unknown (launcher elsewhere)"


def test_a_failed_run_has_no_figures_of_speed(run_factory: RunFactory, reporter: Reporter) -> None:
    found = beginning(reporter, run_factory.put(noise(1, 2.0, count=8), valid=False, result={"cause": "gone"}))
    assert [fact.name for fact in found.facts] == ["steps in the log"]


@pytest.mark.parametrize(
    ("times", "word", "tone", "says"),
    [
        (noise(1, 1.0), "valid", "good", "The run completed with valid data and a stable window; "),
        ([1.0 + 0.02 * k for k in range(50)], "unstable", "warn", "valid data, but a window that is not stable (drift"),
    ],
)
def test_the_verdict_says_in_one_sentence_whether_the_run_is_valid_and_stable(
    run_factory: RunFactory, reporter: Reporter, times: list[float], word: str, tone: str, says: str
) -> None:
    (said,) = reporter.report(run_factory.put(times)).verdicts
    assert (said.word, said.tone) == (word, tone)
    assert says in said.text and "no published figure or baseline" in said.text


def test_the_verdict_of_a_comparison_has_the_interval_and_the_stability(
    run_factory: RunFactory, reporter: Reporter, toy: Toy, row: Reference
) -> None:
    toy.references = (row,)
    (said,) = reporter.report(run_factory.put(noise(1, 1.0))).verdicts
    assert said.word == "equivalent"
    assert re.match(
        r"Compared with the published figure: steps take .* \(95 % interval .* to .* %\), within", said.text
    )
    assert said.text.endswith("The run completed with valid data and a stable window.")


def test_several_configurations_begin_with_a_verdict_on_all(run_factory: RunFactory, reporter: Reporter) -> None:
    runs = [run_factory.put(noise(k, 1.0 / k), gpus=8 * k) for k in (1, 2)]
    runs.append(run_factory.put(noise(3, 1.0, count=5), gpus=32, valid=False, result={"cause": "rank 3: gone"}))
    found = beginning(reporter, *runs)
    assert found.verdict is not None
    assert (found.verdict.tone, found.verdict.word) == ("bad", "3 configurations: 1 failed, 2 valid")
    assert found.verdict.text.startswith("Strong scaling of line 1b bf16 on h100: the efficiency at 16 GPUs is ")
    known = {fact.name: fact for fact in found.facts}
    assert len(known) <= MOST and known["highest throughput"].note == "line 1b bf16, 16 × h100"
    assert known["efficiency at 16 GPUs"].value == pytest.approx(100, abs=1)


def test_equal_verdicts_are_one_box_and_the_worst_is_first(run_factory: RunFactory, reporter: Reporter) -> None:
    count = MOST_NAMES + 2
    runs = [run_factory.put(noise(k, 1.0), gpus=8 * (k + 1)) for k in range(count)]
    runs.append(run_factory.put(noise(3, 1.0, count=5), gpus=800, valid=False, result={"cause": "rank 3: gone"}))
    text = render(reporter.report(*runs))
    boxes = re.findall(r'<div class="verdict (\w+ part)">.*?</div>', text, flags=re.S)
    assert boxes == ["bad part", "good part"]
    shared = text.split('<div class="verdict good part">')[1].split("</div>")[0]
    assert "line 1b bf16, 8 × h100; line 1b bf16, 16 × h100" in shared and "and 2 more" in shared
