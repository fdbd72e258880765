"""The programs for an hour with a GPU: every command is right before it is there, and results are filed as they are."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("rehearse", [False, True])
def test_the_dry_run_resolves_every_command_and_no_rule_is_broken(rehearse: bool) -> None:
    argv = [sys.executable, ROOT / "benchmarks" / "gpu" / "run.py", "--dry-run", *(["--rehearse"] if rehearse else [])]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    errors = [line for line in done.stdout.splitlines() if "ERROR" in line and "nsys is not on PATH" not in line]
    assert errors == []
    commands = [line.split() for line in done.stdout.splitlines() if line.startswith("    llmbx ")]
    sizes = {words[words.index("--size") + 1] for words in commands}
    assert sizes == ({"mini"} if rehearse else {"8b-1gpu", "70b-1gpu", "314b-1gpu", "400b-1gpu"})
    assert {words[words.index("--gpu-type") + 1] for words in commands} == {"cpu" if rehearse else "h200"}


def test_a_stage_lasts_less_than_a_machine_gives_a_command(gpu: Any) -> None:
    """Ten minutes; only that of MaxText's pairs is longer before its programs are compiled, and is then cached."""
    for stage in gpu.plan.STAGES:
        text = gpu.foresee.text({stage: gpu.plan.jobs(stage, gpu.plan.Scale())}, gpu.plan.Scale())
        minutes = int(text.splitlines()[-2].split()[-2])
        assert minutes < (14 if stage == "pairs-maxtext" else 10), text


def test_a_wrong_word_in_a_command_is_found_by_the_dry_run(gpu: Any) -> None:
    case = gpu.cases.CASES[0]
    job = gpu.plan.training(case, gpu.plan.Scale(), "--set", "atention=flash")
    with pytest.raises(Exception, match="did you mean 'attention'"):
        gpu.foresee.text({"nemo": [job]}, gpu.plan.Scale())


def test_pairs_alternate_and_the_first_run_is_not_counted(gpu: Any) -> None:
    names = [job.name for job in gpu.plan.jobs("pairs-nemo", gpu.plan.Scale())]
    assert names[:5] == ["nemo-llmbx-0", "nemo-bare-1", "nemo-llmbx-1", "nemo-bare-2", "nemo-llmbx-2"]
    assert len([name for name in names if "bare" in name]) == 5
    steps = {"nemo-llmbx-0": 9.0, "nemo-bare-1": 2.0, "nemo-llmbx-1": 2.1, "nemo-bare-2": 4.0, "nemo-llmbx-2": None}
    jobs = [{"name": name, "median_step_s": value} for name, value in steps.items()]
    assert gpu.keep.paired({"stage": "pairs-nemo", "jobs": jobs}) == [1.05]


def test_step_times_are_read_from_the_logs_of_both_frameworks(gpu: Any) -> None:
    nemo = gpu.plan.Job("x", "bare", (), "nemo")
    line = " [t] iteration {}/ 4 | consumed samples: 4 | elapsed time per iteration (ms): {} | throughput"
    text = "\n".join(line.format(number, 1000.0 * number) for number in (1, 2, 3, 4))
    assert gpu.do.times(nemo, text) == {"step_seconds": [1.0, 2.0, 3.0, 4.0], "median_step_s": 3.0}
    maxtext = gpu.plan.Job("x", "bare", (), "maxtext")
    text = "I1 metric_logger.py:265] completed step: 3, seconds: 0.350, TFLOP/s/device: 0.033"
    assert gpu.do.times(maxtext, text)["step_seconds"] == [0.35]
    assert gpu.do.times(maxtext, "nothing") == {"step_seconds": [], "median_step_s": None}


def test_a_short_log_has_its_beginning_its_end_and_no_folder_of_the_machine(gpu: Any) -> None:
    text = "\n".join(f"{gpu.place.ROOT}/line {number}" for number in range(500))
    lines = gpu.do.short(text).splitlines()
    assert len(lines) == 2 * gpu.do.SHORT + 1 and lines[0] == "./line 0" and lines[-1] == "./line 499"


def trace(folder: Path, name: str, events: list[dict[str, Any]]) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))


def test_a_trace_is_summed_by_the_operations_of_the_gpu(gpu: Any, tmp_path: Path) -> None:
    gemm = {"ph": "X", "cat": "kernel", "name": "gemm", "dur": 2000}
    events = [gemm, gemm, {**gemm, "name": "norm", "dur": 1000}, {**gemm, "cat": "cpu_op", "name": "mm", "dur": 9}]
    trace(tmp_path / "torch", "torch_profile/rank0.pt.trace.json.gz", events)
    lines = gpu.top.analysis(tmp_path / "torch").splitlines()
    assert lines[0].startswith("GPU operations in rank0.pt.trace.json.gz")
    assert [line.split() for line in lines[2:]] == [["4.0", "80.0%", "2", "gemm"], ["1.0", "20.0%", "1", "norm"]]

    device = {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "/device:GPU:0"}}
    lanes = [
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": tid, "args": {"name": name}}
        for tid, name in ((1, "Stream #13(Compute)"), (2, "XLA Modules"))
    ]
    fusion = {"ph": "X", "pid": 7, "tid": 1, "name": "fusion", "dur": 500}
    again, host = {**fusion, "tid": 2, "name": "module"}, {**fusion, "pid": 1, "name": "python"}
    trace(tmp_path / "jax", "maxtext/run/x/h.trace.json.gz", [device, *lanes, fusion, again, host])
    assert [line.split()[-1] for line in gpu.top.analysis(tmp_path / "jax").splitlines()[2:]] == ["fusion"]
    assert gpu.top.analysis(tmp_path / "nothing") is None


def test_the_newest_run_is_none_where_a_command_failed_before_it_began(gpu: Any, tmp_path: Path) -> None:
    for name, created in (("old", 10.0), ("new", 20.0)):
        folder = tmp_path / "workloads" / "w" / "experiments" / "e" / name / "e"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"created": created}))
    found = gpu.do.newest(tmp_path, 5.0)
    assert found is not None and found.parent.name == "new"
    assert gpu.do.newest(tmp_path, 21.0) is None


def stage(folder: Path, name: str, day: str, rehearsal: bool = False) -> None:
    """A stage of which one case was run: figures made up here, for the arithmetic."""
    folder = folder / name
    folder.mkdir(parents=True)
    jobs = [
        {"name": "matmul", "figures": {"tflops": 800.0}},
        {"name": "llama3.1-8b", "machine": {"gpus": [{"name": "X"}]}},
    ]
    record = {"stage": name, "rehearsal": rehearsal, "date": f"{day}T00:00:00+00:00", "command": "c", "jobs": jobs}
    (folder / "stage.json").write_text(json.dumps(record))
    result = {
        "status": "completed",
        "step_time_s": {"mean": 2.0},
        "workload": {"global_batch_size": 4, "gpus": 1},
        "flops_per_sample": {"full": 3e14, "causal": 2e14},
        "mfu": {"peak_tflops": 1000.0},
    }
    (folder / "llama3.1-8b.result.json").write_text(json.dumps(result))


def test_results_are_filed_by_date_and_shown_under_both_conventions(gpu: Any, tmp_path: Path) -> None:
    stage(tmp_path / "out", "nemo", "2030-01-02")
    (kept,) = gpu.keep.file_away(tmp_path / "out", tmp_path / "results")
    assert kept == tmp_path / "results" / "2030-01-02" / "nemo"
    row = gpu.keep.section(tmp_path / "results").splitlines()[-1]
    # 4 samples of 3e14 (2e14) FLOPs in 2 s: 600 (400) TFLOP/s of 1000
    assert row == "| llama3.1 8b-1gpu bf16 | 2.000 | 600 | 1000 | 60.0 % | 40.0 % | 62.5 % | 75.0 % |"


def test_a_rehearsal_is_never_filed(gpu: Any, tmp_path: Path) -> None:
    stage(tmp_path / "out", "nemo", "2030-01-02", rehearsal=True)
    with pytest.raises(SystemExit, match="rehearsal"):
        gpu.keep.file_away(tmp_path / "out", tmp_path / "results")


def test_the_readmes_section_is_what_the_results_say(gpu: Any) -> None:
    text = (ROOT / "README.md").read_text()
    between = text.partition(gpu.keep.BEGIN)[2].partition(gpu.keep.END)[0].strip()
    assert between == gpu.keep.section(gpu.keep.RESULTS)
    if not gpu.keep.RESULTS.exists():
        assert "no figure from a GPU yet" in between


def test_what_is_carried_is_pinned_and_brings_neither_torch_nor_jax(gpu: Any) -> None:
    pins = gpu.wheelhouse.pins()
    assert set(pins) == {"llmbx", "nemo", "maxtext"}
    names = {wheel.partition("==")[0].lower() for wheels in pins.values() for wheel in wheels}
    assert all("==" in wheel for wheels in pins.values() for wheel in wheels)
    assert not names & {"torch", "jax", "jaxlib", "triton", "transformers"}
    assert {"megatron-bridge==0.3.1", "megatron-core==0.16.1"} <= set(pins["nemo"]) and "maxtext==0.2.5" in pins[
        "maxtext"
    ]
