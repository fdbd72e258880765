"""The command `compare` with runs, baselines and published rows, on stored runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import junitparser
import pytest
from click.testing import CliRunner, Result

from llmbx.cli.workspace import Workspace
from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.errors import LlmbxError, UsageError
from llmbx.model import Image, Reference, Stability
from llmbx.model.result import FlopsPerSample
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import read_result
from llmbx_analysis.cli import compare as module
from llmbx_history.tags import change_tags

from ....run_factory import FLOPS, RunFactory, Toy, noise

Compare = Callable[..., Result]


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, install: Install, plugins: Plugins) -> Compare:
    monkeypatch.setattr(module, "load_workspace", lambda: Workspace(plugins, Config(), {}, install))

    def invoke(*arguments: str) -> Result:
        done = CliRunner().invoke(module.command, list(arguments))
        if isinstance(done.exception, LlmbxError):
            raise done.exception
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return invoke


def verdict_of(done: Result) -> str:
    """The last paragraph of the text."""
    return done.stdout.rstrip().rpartition("\n\n")[2].replace("\n", " ")


def read(done: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_run_that_crashed_after_its_last_step_gives_a_warning(run_factory: RunFactory, compare: Compare) -> None:
    crashed = {"status": "out_of_memory", "cause": "after the last step: rank 3 was killed"}
    a, b = run_factory.put(noise(3, 1.0)), run_factory.put(noise(4, 1.0), result=crashed)
    warned = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))["warnings"]
    told = f"B: {b.record.run_id} ended with out of memory: after the last step: rank 3 was killed"
    assert told in warned and not any(line.startswith("A: ") for line in warned)
    assert "ended with out of memory" in " ".join(compare(a.record.run_id, b.record.run_id).stdout.split())


def test_a_slower_run_exits_3_with_the_change_and_its_interval(run_factory: RunFactory, compare: Compare) -> None:
    a, b = run_factory.put(noise(3, 1.0)), run_factory.put(noise(4, 1.08))
    done = compare(a.record.run_id, b.record.run_id)
    assert done.exit_code == 3
    assert verdict_of(done).startswith("slower: steps take 8.")
    found = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))
    assert found["verdict"] == "slower"
    change = found["change"]
    assert change["low"] < 0.08 < change["high"]
    assert change["over"] == "steps"
    assert found["a"]["runs"] == [a.record.run_id]
    assert found["b"]["step_time_s"]["count"] == 34
    assert any("one run per side" in line for line in found["warnings"])


@pytest.mark.parametrize(
    ("mean", "options", "verdict", "code"),
    [
        (1.001, (), "equivalent", 0),
        (1.03, (), "equivalent", 0),
        (1.03, ("--tolerance", "1%"), "slower", 3),
        (1.03, ("--tolerance", "2.5%"), "inconclusive", 5),
        (1.03, ("--tolerance", "0%"), "slower", 3),
        (1.001, ("--tolerance", "0%"), "inconclusive", 5),
        (0.9, (), "faster", 0),
    ],
)
def test_the_tolerance_decides_what_matters(
    run_factory: RunFactory, compare: Compare, mean: float, options: tuple[str, ...], verdict: str, code: int
) -> None:
    run_factory.put(noise(1, 1.0), tags=("old",))
    run_factory.put(noise(2, mean))
    done = compare("last", "--baseline", "old", "--format", "json", *options)
    assert (read(done)["verdict"], done.exit_code) == (verdict, code)


def test_a_noisy_run_has_no_verdict(run_factory: RunFactory, compare: Compare) -> None:
    a, b = (
        run_factory.put(noise(1, 1.0)),
        run_factory.put(noise(2, 1.1, count=24, spread=0.1), window="11-23", steps=24),
    )
    done = compare(a.record.run_id, b.record.run_id)
    assert done.exit_code == 5
    assert verdict_of(done).startswith("inconclusive: ")
    assert " would decide" in verdict_of(done) or "unstable" in verdict_of(done)


def test_repeats_are_compared_by_their_means(run_factory: RunFactory, compare: Compare) -> None:
    """Runs scatter by 3 % although their steps are steady: the steps alone would give the verdict slower."""
    group = {"record": {"group": "repeat-1"}}
    for seed, mean in enumerate((0.96, 1.0, 1.04, 1.01)):
        run_factory.put(noise(seed, mean), **group)
    run_factory.put(noise(9, 1.06))
    name = str(min(run_factory.install.path.glob("workloads/*/experiments/*/*/*")))
    done = compare(name, "last", "--format", "json", "--tolerance", "1%")
    together = read(done)
    assert (together["verdict"], done.exit_code) == ("inconclusive", 5)
    assert together["change"]["over"] == "repeats"
    assert together["needed"]["runs"] > 2
    assert f"about {together['needed']['runs']} runs on each side (--repeat" in together["reason"]
    assert (together["a"]["kind"], len(together["a"]["runs"])) == ("repeats", 4)
    assert not any("one run per side" in line for line in together["warnings"])
    alone = read(compare(name, "last", "--format", "json", "--tolerance", "1%", "--single"))
    assert (alone["verdict"], alone["change"]["over"]) == ("inconclusive", "steps")
    assert alone["change"]["prior_runs"] == 3, "the repeats that are left out still say how much runs vary"


def test_two_repeats_of_one_command_are_compared_as_single_runs(run_factory: RunFactory, compare: Compare) -> None:
    a, b = (run_factory.put(noise(seed, 1.0), record={"group": "g"}) for seed in (1, 2))
    found = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))
    assert (found["a"]["runs"], found["b"]["runs"]) == ([a.record.run_id], [b.record.run_id])
    with pytest.raises(UsageError, match="with itself"):
        compare(a.record.run_id, a.folder)


def test_the_baseline_is_every_valid_comparable_run_with_the_tag(run_factory: RunFactory, compare: Compare) -> None:
    good = [run_factory.put(noise(seed, 1.0), tags=("accepted",)) for seed in range(3)]
    run_factory.put(noise(7, 5.0), tags=("accepted",), valid=False)
    run_factory.put(noise(8, 9.0), tags=("accepted",), global_batch_size=128)
    run_factory.put(noise(9, 1.2), tags=("accepted",))
    found = read(compare("--baseline", "accepted", "--format", "json"))
    assert found["a"]["runs"] == [run.record.run_id for run in good]
    assert (found["a"]["kind"], found["a"]["label"]) == ("baseline", "accepted")
    assert found["verdict"] == "slower"
    with pytest.raises(
        UsageError, match=r"--baseline acepted: no other run has this tag \(did you mean 'accepted'\?\)"
    ):
        compare("--baseline", "acepted")


def test_the_run_itself_is_not_a_baseline(run_factory: RunFactory, compare: Compare) -> None:
    run_factory.put(noise(1, 1.0), tags=("accepted",))
    with pytest.raises(UsageError, match="and its repeats have this tag"):
        compare("last", "--baseline", "accepted")


def test_of_a_baseline_only_the_newest_and_its_repeats_count(run_factory: RunFactory, compare: Compare) -> None:
    """The tag was set again after an upgrade, so runs with the old libraries are not part of the baseline."""
    run_factory.put(noise(1, 2.0), tags=("accepted",))
    new = {"versions": {"torch": "2.9.0"}}
    kept = [run_factory.put(noise(seed, 1.0), tags=("accepted",), record=new) for seed in (2, 3)]
    run_factory.put(noise(4, 1.2), record=new)
    found = read(compare("--baseline", "accepted", "--format", "json"))
    assert found["a"]["runs"] == [run.record.run_id for run in kept]
    assert found["verdict"] == "slower"


def test_added_and_removed_tags_change_the_baseline(run_factory: RunFactory, compare: Compare) -> None:
    first, second, last = (run_factory.put(noise(seed, mean)) for seed, mean in enumerate((1.0, 1.5, 1.2)))
    change_tags(first, add=["accepted"])
    assert read(compare("last", "--baseline", "accepted", "--format", "json"))["verdict"] == "slower"
    change_tags(first, remove=["accepted"])
    change_tags(second, add=["accepted"])
    found = read(compare("last", "--baseline", "accepted", "--format", "json"))
    assert (found["verdict"], found["a"]["runs"]) == ("faster", [second.record.run_id])
    for names, verdict in (
        (("tag:accepted", last.record.run_id), "faster"),
        ((last.record.run_id, "tag:accepted"), "slower"),
    ):
        assert read(compare(*names, "--format", "json"))["verdict"] == verdict
    with pytest.raises(UsageError, match="no other run has this tag"):
        compare("last", "tag:nothing")


def test_a_tag_means_the_newest_run_that_does_the_same_work(run_factory: RunFactory, compare: Compare) -> None:
    good = run_factory.put(noise(1, 1.0), tags=("accepted",))
    run_factory.put(noise(2, 1.0), tags=("accepted",), dtype="fp8")
    run_factory.put(noise(3, 1.0), tags=("accepted",), valid=False)
    run = run_factory.put(noise(4, 1.0))
    found = read(compare("tag:accepted", run.record.run_id, "--format", "json"))
    assert found["a"]["runs"] == [good.record.run_id]


def test_a_baseline_that_is_not_comparable_is_rejected_with_the_reason(
    run_factory: RunFactory, compare: Compare
) -> None:
    run_factory.put(noise(1, 1.0), tags=("old",), global_batch_size=128)
    run_factory.put(noise(2, 1.0))
    with pytest.raises(
        UsageError, match=r"none of its 1 runs is comparable with .*the global batch size differs \(128 and 64"
    ) as error:
        compare("--baseline", "old")
    assert error.value.exit_code == 5


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"global_batch_size": 128}, "the global batch size differs (64 and 128)"),
        ({"dtype": "fp8"}, "the dtype differs (bf16 and fp8)"),
        ({"gpus": 16}, "the number of GPUs differs (8 and 16)"),
        ({"gpu_type": "gb200"}, "the GPU type differs (h100 and gb200)"),
        ({"size": "mini", "mini": True}, "the size differs (1b and mini)"),
        ({"sequence_length": 256}, "the models differ in sequence_length (128 and 256)"),
        ({"layers": 8}, "the models differ in layers (4 and 8)"),
    ],
)
def test_different_work_gets_no_verdict_and_figures_only_if_forced(
    run_factory: RunFactory, compare: Compare, changes: dict[str, Any], reason: str
) -> None:
    for key in ("sequence_length", "layers"):
        if key in changes:
            changes = {"model": run_factory.spec.model.replace(**changes)}
    a, b = run_factory.put(noise(1, 1.0)), run_factory.put(noise(2, 1.0), **changes)
    done = compare(a.record.run_id, b.record.run_id)
    assert done.exit_code == 5
    assert verdict_of(done).startswith("not comparable: ") and reason in verdict_of(done)
    assert "--force" in verdict_of(done) and "step time" not in done.stdout
    forced = compare(a.record.run_id, b.record.run_id, "--force", "--format", "json")
    found = read(forced)
    assert reason in found["not_comparable_because"] and found["metrics"][0]["name"] == "step_time"
    assert (found["verdict"], forced.exit_code) == ("not comparable", 5)


@pytest.mark.parametrize("flag", ["profiled", "traced"])
def test_a_profiled_or_traced_run_is_not_comparable(run_factory: RunFactory, compare: Compare, flag: str) -> None:
    a, b = run_factory.put(noise(1, 1.0)), run_factory.put(noise(2, 1.0), result={flag: True})
    done = compare(a.record.run_id, b.record.run_id)
    assert done.exit_code == 5 and f"was {flag}" in verdict_of(done)


def test_minis_are_comparable_with_minis(run_factory: RunFactory, compare: Compare) -> None:
    for seed in range(6):
        last = run_factory.put(noise(seed, 1.0), size="mini", mini=True, gpu_type="cpu").record.run_id
    assert read(compare("last~1", last, "--format", "json"))["verdict"] == "equivalent"


def test_a_run_without_valid_data_gets_no_verdict(run_factory: RunFactory, compare: Compare) -> None:
    a = run_factory.put(noise(1, 1.0))
    b = run_factory.put(noise(2, 1.0), valid=False, result={"cause": "rank 3: out of memory"})
    for options in ((), ("--force",)):
        done = compare(a.record.run_id, b.record.run_id, *options)
        assert done.exit_code == 5
        assert "has no valid data (failed: rank 3: out of memory)" in verdict_of(done)
    short = run_factory.put(noise(3, 1.0, count=20))
    for options in ((), ("--force",)):
        done = compare(a.record.run_id, short.record.run_id, *options)
        assert done.exit_code == 5
        assert "has no measured steps (window 11-44: the log ends at step 19)" in verdict_of(done)
    found = read(compare(a.record.run_id, short.record.run_id, "--window", "11-18", "--format", "json"))
    assert (found["a"]["windows"], found["b"]["windows"]) == (["11-18"], ["11-18"])
    assert found["a"]["step_time_s"]["count"] == 8


@pytest.mark.parametrize("status", ["timeout", "cancelled", "lost", "completed"])
def test_no_status_replaces_valid_data(run_factory: RunFactory, compare: Compare, status: str) -> None:
    a = run_factory.put(noise(1, 1.0))
    b = run_factory.put(noise(2, 1.0), valid=False, result={"status": status})
    done = compare(a.record.run_id, b.record.run_id)
    assert done.exit_code == 5 and f"has no valid data ({status})" in verdict_of(done)


def test_different_windows_give_a_warning(run_factory: RunFactory, compare: Compare) -> None:
    a, b = run_factory.put(noise(1, 1.0)), run_factory.put(noise(2, 1.0), window="35-44")
    found = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))
    assert any(line.startswith("measured over different steps: A 11-44, B 35-44; ") for line in found["warnings"])


def test_the_noise_of_a_single_step_is_unknown(run_factory: RunFactory, compare: Compare) -> None:
    a, b = (run_factory.put(noise(seed, mean), window="last") for seed, mean in ((1, 1.0), (2, 1.2)))
    done = compare(a.record.run_id, b.record.run_id, "--format", "json")
    assert (read(done)["verdict"], done.exit_code) == ("inconclusive", 5)
    assert read(done)["reason"].count("only one step was measured") == 2 or "unstable" in read(done)["reason"]


def test_a_missing_file_with_the_steps_is_named(run_factory: RunFactory, compare: Compare) -> None:
    a, b = run_factory.put(noise(1, 1.0)), run_factory.put(noise(2, 1.2))
    (a.path / "steps.jsonl").unlink()
    done = compare(a.record.run_id, b.record.run_id)
    assert done.exit_code == 5
    assert "steps.jsonl has 0 of the 34 measured steps, so its noise is unknown" in verdict_of(done)
    with pytest.raises(UsageError, match=r"steps\.jsonl: no such file, or an empty one; another window cannot be mea"):
        compare(a.record.run_id, b.record.run_id, "--window", "20-40")


def test_an_outlier_leaves_no_verdict(run_factory: RunFactory, compare: Compare) -> None:
    times = noise(2, 1.0)
    times[20] = 3.0
    a, b = run_factory.put(noise(1, 1.0)), run_factory.put(times)
    done = compare(a.record.run_id, b.record.run_id)
    assert done.exit_code == 5
    assert verdict_of(done).startswith(f"inconclusive: B: {b.record.run_id} is unstable (outlier")
    assert re.search(r"warning: B: outlier.*\b20\b", " ".join(done.stdout.split()))


def test_a_stated_stability_decides(run_factory: RunFactory, compare: Compare) -> None:
    """The verdict of result.json counts, not another test of the steps."""
    stable, drifting = Stability(verdict="stable"), Stability(verdict="drifting", reason="3.1 % over the window")
    a = run_factory.put(noise(1, 1.0), result={"stability": stable})
    b = run_factory.put(noise(2, 1.0), result={"stability": drifting})
    done = compare(a.record.run_id, b.record.run_id)
    assert done.exit_code == 5
    assert f"B: {b.record.run_id} is unstable (drifting)" in verdict_of(done)
    times = noise(2, 1.0)
    times[20] = 1.03
    c = run_factory.put(times, result={"stability": stable})
    assert compare(a.record.run_id, c.record.run_id).exit_code == 0


def test_one_unstable_repeat_of_three_may_be_a_false_alarm(run_factory: RunFactory, compare: Compare) -> None:
    """With 5 % false alarms, one of three repeats is unstable by chance in 14 of 100 sides, two in 1 of 100."""
    stable, drifts = Stability(verdict="stable"), Stability(verdict="drifting", reason="7 % over the window")
    a = run_factory.put(noise(1, 1.0), result={"stability": stable})
    sides = {}
    for name, verdicts in (("one", (stable, stable, drifts)), ("two", (stable, drifts, drifts))):
        for seed, verdict in enumerate(verdicts):
            sides[name] = run_factory.put(noise(seed, 1.0), result={"stability": verdict}, record={"group": name})
    one, two = (compare(a.record.run_id, sides[name].record.run_id) for name in ("one", "two"))
    assert (one.exit_code, two.exit_code) == (0, 5)
    assert "drifting: 7 % over the window" in " ".join(one.stdout.split())
    assert "B: 2 of 3 repeats are unstable (drifting)" in verdict_of(two)


def test_repeats_of_noisy_windows_decide_together(run_factory: RunFactory, compare: Compare) -> None:
    """The noise of a window is part of the variation between the means; of a single run it leaves no verdict."""
    noisy = {"stability": Stability(verdict="noisy", reason="uncertain by 1.5 %")}
    sides = []
    for name, first in (("one", 0), ("two", 10)):
        for seed in range(first, first + 5):
            run = run_factory.put(noise(seed, 1.0, spread=0.03), result=noisy, record={"group": name})
        sides.append(run.record.run_id)
    done = compare(*sides)
    assert done.exit_code == 0 and verdict_of(done).startswith("equivalent")
    assert "uncertain by 1.5 %" in done.stdout
    single = compare(*sides, "--single")
    assert single.exit_code == 5 and "is unstable (noisy)" in verdict_of(single)


def test_mfu_is_compared_under_one_convention(run_factory: RunFactory, compare: Compare) -> None:
    a = run_factory.put(noise(1, 1.0), flops_convention="causal")
    b = run_factory.put(noise(1, 1.0), flops_convention="full")
    assert b.record.spec.peak is not None
    found = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))
    lines = {line["name"]: line for line in found["metrics"]}
    for name in ("mfu", "tflops_per_gpu"):
        assert lines[name]["a"] == pytest.approx(lines[name]["b"], rel=1e-4)
        assert lines[name]["note"] == "converted from full to causal attention"
    assert lines["mfu"]["a"] == pytest.approx(100 * FLOPS.causal * 64 / 8 / 989e12, rel=1e-2)
    assert lines["step_time"]["change_percent"] == pytest.approx(0)
    back = read(compare(b.record.run_id, a.record.run_id, "--format", "json"))
    assert {m["name"]: m for m in back["metrics"]}["mfu"]["a"] == pytest.approx(
        100 * FLOPS.full * 64 / 8 / 989e12, rel=1e-2
    )


def test_flops_that_cannot_be_converted_are_rejected_or_left_out_if_forced(
    run_factory: RunFactory, compare: Compare
) -> None:
    a = run_factory.put(noise(1, 1.0), flops_convention="causal")
    b = run_factory.put(noise(1, 1.0), flops_convention="full", result={"flops_per_sample": FlopsPerSample(full=8e13)})
    refused = compare(a.record.run_id, b.record.run_id)
    assert "the FLOPs use different attention conventions (causal and full)" in verdict_of(refused)
    forced = read(compare(a.record.run_id, b.record.run_id, "--format", "json", "--force"))
    (line,) = [m for m in forced["metrics"] if m["name"] == "mfu"]
    assert (line["b"], line["change_percent"]) == (None, None)
    assert line["note"].startswith("not converted from full to causal attention")


def test_differences_are_listed_likeliest_cause_first(run_factory: RunFactory, compare: Compare) -> None:
    a = run_factory.put(noise(1, 1.0))
    record = {
        "image": Image(kind="container", reference="toy:1", python="python", digest="sha256:bbbb"),
        "versions": {"torch": "2.9.0"},
        "host": {"hostname": "node2", "driver": "580.2", "clocks_max_mhz": 1755},
        "environment": {"PWD": "/x", "NCCL_IB_SL": "0", "EDITOR": "vi"},
    }
    parallelism = a.record.spec.parallelism.replace(tp=2)
    b = run_factory.put(noise(2, 1.1), record=record, parallelism=parallelism, env={"NCCL_NVLS_ENABLE": "1"})
    found = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))
    order = [d["what"] for d in found["differences"]]
    assert order == [
        "parallelism tp", "image digest", "exported NCCL_NVLS_ENABLE", "version of torch", "driver", "clocks_max_mhz",
        "nodes", "environment NCCL_IB_SL", "environment EDITOR",
    ]  # fmt: skip
    by_name = {d["what"]: d for d in found["differences"]}
    assert (by_name["parallelism tp"]["a"], by_name["parallelism tp"]["b"]) == (1, 2)
    assert by_name["version of torch"]["note"] == "different minor version"
    assert "different image content" in by_name["image digest"]["note"]
    assert (by_name["nodes"]["a"], by_name["nodes"]["b"]) == ("node1", "node2")
    text = compare(a.record.run_id, b.record.run_id).stdout
    assert "differences, likeliest cause first:\n  parallelism tp: 1 -> 2" in text
    assert "EDITOR" not in text and "and 1 more that rarely matter" in text


def test_equal_runs_have_no_differences(run_factory: RunFactory, compare: Compare) -> None:
    a, b = run_factory.put(noise(1, 1.0)), run_factory.put(noise(2, 1.0))
    assert read(compare(a.record.run_id, b.record.run_id, "--format", "json"))["differences"] == []
    assert "no differences between the records" in compare(a.record.run_id, b.record.run_id).stdout


@pytest.mark.parametrize(("mean", "verdict", "code"), [(1.08, "slower", 3), (1.01, "equivalent", 0)])
def test_against_the_published_row(
    run_factory: RunFactory, toy: Toy, row: Reference, compare: Compare, mean: float, verdict: str, code: int
) -> None:
    toy.references = (row,)
    run_factory.put(noise(2, mean))
    done = compare("--reference", "--format", "json")
    found = read(done)
    assert (found["verdict"], done.exit_code) == (verdict, code)
    assert (found["a"]["kind"], found["a"]["label"]) == ("reference", "The recipe, table")
    assert found["a"]["step_time_s"]["method"] == "rounded"
    lines = {m["name"]: m for m in found["metrics"]}
    assert lines["mfu"]["change_percent"] == pytest.approx(100 * (1 / mean - 1), abs=0.3)
    assert found["warnings"] == []


def test_mfu_is_converted_to_the_convention_of_the_source(
    run_factory: RunFactory, toy: Toy, row: Reference, compare: Compare
) -> None:
    toy.references = (row,)
    run_factory.put(noise(2, 1.0), flops_convention="causal")
    found = read(compare("--reference", "--format", "json"))
    (line,) = [m for m in found["metrics"] if m["name"] == "mfu"]
    assert line["change_percent"] == pytest.approx(0, abs=0.3)
    assert line["note"] == "converted from causal to full attention, the convention of the source"


@pytest.mark.parametrize(
    ("printed", "published", "note"),
    [
        (
            989.0 * 0.98, 1 / 0.98,
            "both of the source's peak of 969.22 TFLOP/s; elsewhere the MFU of B is of 989 TFLOP/s (H100 dense BF16)",
        ),
        (989.0, 1.0, None),
        (None, 1.0, "the source does not state its peak; B is of 989 TFLOP/s (H100 dense BF16)"),
    ],
)  # fmt: skip
def test_mfu_is_compared_by_the_peak_of_the_source(
    run_factory: RunFactory, toy: Toy, row: Reference, compare: Compare, printed: float | None, published: float,
    note: str | None,
) -> None:  # fmt: skip
    """A source whose peak is 2 % under the data sheet's prints a MFU 2 % higher for the same step time."""
    assert row.mfu is not None
    toy.references = (row.replace(peak_tflops=printed, mfu=row.mfu * published),)
    run = run_factory.put(noise(2, 1.0))
    found = read(compare("--reference", "--format", "json"))
    (line,) = [m for m in found["metrics"] if m["name"] == "mfu"]
    assert line["change_percent"] == pytest.approx(0, abs=0.3)
    assert line["b"] == pytest.approx(line["a"], rel=0.003)
    assert line["note"] == note
    own = read_result(run.path)
    assert own is not None and own.mfu.peak_tflops == 989, "the result keeps the data sheet's"


def test_a_disputed_row_gives_a_warning(run_factory: RunFactory, toy: Toy, row: Reference, compare: Compare) -> None:
    assert row.tokens_per_s is not None
    toy.references = (row.replace(tokens_per_s=row.tokens_per_s / 2),)
    run_factory.put(noise(2, 1.0))
    found = read(compare("--reference", "--format", "json"))
    assert found["verdict"] == "equivalent"
    (line,) = found["warnings"]
    assert line.startswith("published figure disputed: tokens_per_s 4096, recomputed 8192")


def test_differences_from_the_recipe_are_listed(
    run_factory: RunFactory, toy: Toy, row: Reference, compare: Compare
) -> None:
    toy.references = (row,)
    run_factory.put(noise(2, 1.1), micro_batch_size=2, cuda_graphs=True)
    found = read(compare("--reference", "--format", "json"))
    assert [d["what"] for d in found["differences"]][:2] == ["cuda_graphs", "micro_batch_size"]


@pytest.mark.parametrize(
    ("changes", "row_changes", "reason"),
    [
        ({"global_batch_size": 128}, {}, "the global batch size differs (64 was published, 128 was run)"),
        ({"recipe": "other"}, {}, "the recipe differs (plain was published, other was run)"),
        ({"forced": ("layers",)}, {}, "rules were overridden with --force: layers"),
        ({"proxy": True}, {}, "a proxy: the model differs from the size it is named after"),
        ({}, {"sequence_length": 8192}, "the sequence length differs (8192 was published, 128 was run)"),
    ],
)
def test_a_run_that_is_not_comparable_with_the_published_row_gets_no_verdict(
    run_factory: RunFactory, toy: Toy, row: Reference, compare: Compare, changes: dict[str, Any],
    row_changes: dict[str, Any], reason: str,
) -> None:  # fmt: skip
    toy.references = (row.replace(**row_changes),)
    run_factory.put(noise(2, 1.0), **changes)
    done = compare("--reference")
    assert done.exit_code == 5 and reason in verdict_of(done)
    assert reason in read(compare("--reference", "--force", "--format", "json"))["not_comparable_because"]


def test_without_a_published_row_the_available_rows_are_listed(
    run_factory: RunFactory, toy: Toy, row: Reference, compare: Compare
) -> None:
    toy.references = (row.replace(dtype="fp8"),)
    run_factory.put(noise(2, 1.0))
    with pytest.raises(
        UsageError,
        match=r"no published figures for line 1b bf16 on 8 x h100 \(published: 1b fp8 on .*\): use --baseline TAG",
    ):
        compare("--reference")
    run_factory.put(noise(2, 1.0), size="mini", mini=True)
    with pytest.raises(UsageError, match="a mini is not comparable with published figures"):
        compare("--reference")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "compare takes two runs or logs, or one with --baseline TAG or --reference; got 0"),
        (("a",), "got 1"),
        (("a", "b", "c"), "got 3"),
        (("a", "b", "--reference"), "--reference takes one run, got 2"),
        (("--reference", "--baseline", "x"), "--reference cannot be combined with --baseline"),
        (("a", "b", "--tolerance", "much"), "--tolerance 'much': expected a percentage"),
        (("a", "b", "--window", "9-3"), "did you mean 3-9?"),
        (("a", "b"), "no run 'a'"),
    ],
)
def test_usage_errors(compare: Compare, arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError) as error:
        compare(*arguments)
    assert says in str(error.value)


def test_the_text_and_the_csv(run_factory: RunFactory, compare: Compare, golden: Callable[[str, str], None]) -> None:
    a = run_factory.put(noise(1, 1.0), tags=("accepted",))
    b = run_factory.put(noise(2, 1.08), record={"versions": {"torch": "2.9.0"}})
    golden("slower.txt", compare(a.record.run_id, b.record.run_id).stdout)
    csv = compare(a.record.run_id, b.record.run_id, "--format", "csv").stdout.splitlines()
    assert csv[0] == "name,unit,a,b,change_percent,note"
    assert csv[1].startswith("step_time,s,")


def node(run: Any, number: int, host: str, power: str = "700.00", clock: str = "1980") -> None:
    lines = [f"host {host}", "kernel 6.1.0", "cpu Xeon", "cores 64",
             *[f"gpu H100, 550.54, {power}, {clock}, 2619, [N/A]"] * 8]  # fmt: skip
    (run.path / f"node-{number}.txt").write_text("\n".join(lines) + "\n")


def test_facts_of_the_nodes_replace_those_of_the_submission_host(run_factory: RunFactory, compare: Compare) -> None:
    """The new driver of the login node has no effect; the power limit of one of the nodes was lowered."""
    a = run_factory.put(noise(1, 1.0))
    b = run_factory.put(noise(2, 1.1), record={"host": {"hostname": "login", "driver": "600.1"}})
    for run, power in ((a, "700.00"), (b, "500.00")):
        node(run, 0, "n1")
        node(run, 1, "n2" if run is a else "n7", power)
    found = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))
    told = {d["what"]: (d["a"], d["b"]) for d in found["differences"]}
    assert told["gpu_power_limit_w"] == (700.0, "500.0 (8 GPUs), 700.0 (8 GPUs)")
    assert told["nodes"] == ("n1, n2", "n1, n7")
    assert "driver" not in told
    assert [d["what"] for d in found["differences"]][:2] == ["gpu_power_limit_w", "nodes"]


def test_nodes_known_for_only_one_side_are_not_a_difference(run_factory: RunFactory, compare: Compare) -> None:
    a, b = run_factory.put(noise(1, 1.0)), run_factory.put(noise(2, 1.1))
    node(b, 0, "node1")
    found = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))
    assert found["differences"] == []


@pytest.mark.parametrize(
    ("mean", "spread", "options", "code", "kind", "word"),
    [
        (1.0, 0.004, (), 0, None, "equivalent"),
        (1.2, 0.004, (), 3, junitparser.Failure, "slower"),
        (1.055, 0.004, (), 5, junitparser.Error, "inconclusive"),
        (1.0, 0.004, ("profiled",), 5, junitparser.Error, "not comparable"),
    ],
)
def test_junit_has_a_case_for_each_metric_and_the_verdict_in_that_of_the_gate(
    run_factory: RunFactory, compare: Compare, mean: float, spread: float, options: tuple[str, ...], code: int,
    kind: Any, word: str,
) -> None:  # fmt: skip
    a = run_factory.put(noise(3, 1.0))
    b = run_factory.put(noise(4, mean, spread=spread), result=dict.fromkeys(options, True))
    done = compare(a.record.run_id, b.record.run_id, "--format", "junit")
    (suite,) = junitparser.JUnitXml.fromroot(junitparser.junitparser.etree.fromstring(done.stdout.encode()))
    gate, *others = suite
    known = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))
    assert (done.exit_code, gate.name, gate.classname) == (code, "step_time", "llmbx.compare")
    assert [(type(found), found.type, found.message) for found in gate.result] == (
        [(kind, word, known["reason"])] if kind else [])  # fmt: skip
    assert f"{word}: {known['reason']}" in gate.system_out
    assert all(case.is_passed for case in others)
    names = [metric["name"] for metric in known["metrics"]]
    assert sorted([gate.name, *(case.name for case in others)]) == sorted(names or ["step_time"])
