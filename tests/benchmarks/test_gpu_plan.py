"""The programs for a short time with a GPU: every command is right before, and results are filed as they are."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import time
import tomllib
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
    assert sizes == ({"mini"} if rehearse else {"mini", "8b-1gpu", "70b-1gpu", "314b-1gpu", "400b-1gpu"})
    assert {words[words.index("--gpu-type") + 1] for words in commands} == {"cpu" if rehearse else "h200"}


def test_no_job_is_started_when_too_little_time_is_left(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    monkeypatch.setattr(gpu.do, "execute", lambda job, *_: started.append(job.name) or {"exit_code": 0, "seconds": 1})
    planned, end = gpu.plan.jobs("nemo", gpu.plan.Scale()), time.monotonic() + gpu.run.LEAST_S
    assert gpu.run.run("nemo", planned, tmp_path, gpu.plan.Scale(), [], end) == 0 and started == []
    record = json.loads((tmp_path / "stage.json").read_text())
    assert {job["skipped"] for job in record["jobs"]} == {"no time left"}


def test_the_older_bridge_is_used_where_the_mini_fails_with_the_newest(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(job: Any, *_: Any) -> dict[str, Any]:
        used[job.name] = gpu.place.PARTS["nemo"]
        return {"name": job.name, "exit_code": int(job.name == "mini"), "seconds": 1}

    used: dict[str, str] = {}
    monkeypatch.setattr(gpu.do, "execute", execute)
    monkeypatch.setitem(gpu.place.PARTS, "nemo", "nemo")
    gpu.run.run("nemo", gpu.plan.jobs("nemo", gpu.plan.Scale()), tmp_path, gpu.plan.Scale(), [], time.monotonic() + 999)
    assert used.pop("mini") == "nemo" and set(used.values()) == {"nemo-0.3"}


def test_a_job_is_stopped_at_its_limit_and_what_it_wrote_is_kept(gpu: Any, tmp_path: Path) -> None:
    done = gpu.do._start([sys.executable, "-uc", "print('begun'); import time; time.sleep(60)"], {}, tmp_path, 2)
    assert done.returncode not in (0, None) and done.stdout == "begun\n"


def test_clocks_are_those_of_the_samples_under_load(gpu: Any, tmp_path: Path) -> None:
    line = "2026/11/26 07:54:0{}, {}, 3201, {}, 59, {}, 105395, 0x0000000000000004\n"
    samples = [(1, 1980, 130.0, 0), (2, 1500, 690.0, 100), (3, 1530, 692.0, 97), (4, 1560, 691.0, 100)]
    (tmp_path / "x.csv").write_text("".join(line.format(*sample) for sample in samples) + "2026/11/26 07:54:05, 15")
    found = gpu.clocks.figures(tmp_path / "x.csv")
    assert (found["samples"], found["loaded"], found["memory.used"]) == (4, 3, 105395)
    assert found["clocks.sm"] == {"median": 1530, "min": 1500, "max": 1560}
    assert gpu.clocks.figures(tmp_path / "none.csv") is None


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
    kept = {name: gpu.keep.Kept({"median_step_s": value}, Path(), {}) for name, value in steps.items()}
    assert gpu.keep.paired(kept, "nemo") == [(2.0, 2.1)]


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
    text, _ = gpu.top.analysis(tmp_path / "torch")
    lines = text.splitlines()
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
    assert [line.split()[-1] for line in gpu.top.analysis(tmp_path / "jax")[0].splitlines()[2:]] == ["fusion"]
    assert gpu.top.analysis(tmp_path / "nothing") is None


def test_the_operations_of_a_profiled_step_are_summed_and_their_overlap_counted_once(gpu: Any, tmp_path: Path) -> None:
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#45", "ts": 100, "dur": 1000}
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 200, "dur": 300}
    events = [step, kernel, {**kernel, "ts": 400}, {**kernel, "ts": 5000}, {**step, "cat": "gpu_user_annotation"}]
    trace(tmp_path, "torch_profile/rank0.pt.trace.json.gz", events)
    (found,) = gpu.top.analysis(tmp_path)[1]
    assert found == pytest.approx({"step_s": 1e-3, "operations_s": 6e-4, "busy_s": 5e-4})


def test_the_newest_run_is_none_where_a_command_failed_before_it_began(gpu: Any, tmp_path: Path) -> None:
    for name, created in (("old", 10.0), ("new", 20.0)):
        folder = tmp_path / "workloads" / "w" / "experiments" / "e" / name / "e"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"created": created}))
    found = gpu.do.newest(tmp_path, 5.0)
    assert found is not None and found.parent.name == "new"
    assert gpu.do.newest(tmp_path, 21.0) is None


def stage(folder: Path, name: str, when: str, rehearsal: bool = False, seconds: float = 2.0) -> None:
    """A stage of which one case was run: figures made up here, for the arithmetic."""
    folder = folder / name
    folder.mkdir(parents=True)
    clocks = {"clocks.sm": {"median": 915.0}}
    job = {
        "name": "llama3.1-8b",
        "machine": {"versions": {"torch": "9"}},
        "clocks": clocks,
        "step_seconds": [seconds] * 9,
    }
    record = {"stage": name, "rehearsal": rehearsal, "date": f"{when}+00:00", "command": "c", "jobs": [job]}
    (folder / "stage.json").write_text(json.dumps(record))
    result = {
        "status": "completed",
        "window": {"first": 3, "last": 8},
        "step_time_s": {"mean": seconds},
        "tflops_per_gpu": {"mean": 400.0},
        "mfu": {"value": 400 / 989, "peak_name": "H200 SXM dense BF16"},
        "peak_memory_gb": 100.0,
    }
    (folder / "llama3.1-8b.result.json").write_text(json.dumps(result))


def test_results_are_filed_by_date_and_mfu_is_shown_at_the_measured_clock_too(gpu: Any, tmp_path: Path) -> None:
    stage(tmp_path / "a", "nemo", "2030-01-02T10:00:00", seconds=3.0)
    stage(tmp_path / "b", "nemo", "2030-01-02T11:00:00")
    filed = [gpu.keep.file_away(tmp_path / out, tmp_path / "results")[0] for out in "ab"]
    assert [path.name for path in filed] == ["nemo-100000", "nemo-110000"] and filed[0].parent.name == "2030-01-02"
    assert filed[0].parent.parent.name == "h200", "the programs' default"
    (row,) = [line for line in gpu.keep.section(tmp_path / "results").splitlines() if "8b-1gpu" in line]
    # the later of two runs; at half of the clock of the data sheet the peak is half as high
    cells = [cell.strip() for cell in row.split("|")[1:7]]
    assert cells == ["llama3.1 8b-1gpu bf16, 16 layers", "2.0000 ± 0.0000", "400", "40.4 %", "915 MHz", "80.9 %"]


def test_a_rehearsal_is_never_filed(gpu: Any, tmp_path: Path) -> None:
    stage(tmp_path / "out", "nemo", "2030-01-02T10:00:00", rehearsal=True)
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
    assert set(pins) == {"llmbx", "nemo", "nemo-0.3", "maxtext"}
    names = {wheel.partition("==")[0].lower() for wheels in pins.values() for wheel in wheels}
    assert all("==" in wheel for wheels in pins.values() for wheel in wheels)
    assert not names & {"torch", "jax", "jaxlib", "triton", "transformers"}
    assert {"megatron-bridge==0.6.2", "megatron-core==0.19.2"} <= set(pins["nemo"])
    assert "megatron-bridge==0.3.1" in pins["nemo-0.3"] and "maxtext==0.2.5" in pins["maxtext"]


def test_what_llmbx_needs_is_carried_or_known_to_be_there(gpu: Any) -> None:
    """click and the like are the machine's; charts and environments are not made there."""
    machine, unused = {"click", "pluggy", "psutil", "numpy", "jinja2"}, {"vl-convert-python", "uv"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=;]", requirement)[0].strip() for requirement in project["dependencies"]}
    assert needed - machine - unused == {wheel.partition("==")[0] for wheel in gpu.wheelhouse.pins()["llmbx"]}
