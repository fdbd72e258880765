"""The NeMo plugin with the real Megatron-Bridge on the CPU: minis, parallel minis, checkpoints, and what goes wrong."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..patience import PATIENCE_S
from .conftest import files_of

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Result = Callable[[Path], dict[str, Any]]

ITERATION = re.compile(r"iteration +(\d+)/ +(\d+) .*?elapsed time per iteration \(ms\): ([\d.]+) .*?lm loss: (\S+)")


@pytest.fixture
def train(llmbx: Llmbx, shared_install: Path) -> Callable[..., tuple[subprocess.CompletedProcess[str], Path]]:
    """`train("grok1", …)`: a run in the shared install, and its folder."""

    def run(*arguments: str, **options: Any) -> tuple[subprocess.CompletedProcess[str], Path]:
        done = llmbx("run", "--plugin", "nemo", *arguments, install=shared_install, **options)
        return done, files_of(done.stdout)

    return run


def test_the_main_job(train: Callable[..., Any], read_result: Result) -> None:
    """`llmbx run --plugin nemo grok1`, 50 real steps: every figure comes from the framework's own log."""
    done, folder = train("grok1")
    assert done.returncode == 0, done.stderr
    result = read_result(folder)
    assert (result["status"], result["data_valid"], result["steps_seen"]) == ("completed", True, 50)
    log = (folder / f"log-{folder.name}.out").read_text()
    printed = {
        int(n): (float(ms) / 1000, float(loss)) for n, total, ms, loss in ITERATION.findall(log) if total == "50"
    }
    assert sorted(printed) == list(range(1, 51))
    window = [printed[n][0] for n in range(35, 45)]
    assert result["window"] == {**result["window"], "first": 35, "last": 44}
    assert result["step_time_s"]["mean"] == pytest.approx(sum(window) / 10)
    assert result["step_time_s"]["min"] == pytest.approx(min(window))
    assert result["step_time_s"]["max"] == pytest.approx(max(window))
    assert result["loss"]["first"] == pytest.approx(printed[1][1]) and result["loss"]["last"] == pytest.approx(
        printed[50][1]
    )
    assert result["loss"]["last"] < result["loss"]["first"] - 1, "it learns"
    assert result["tokens_per_s"] == pytest.approx(128 * 4 / result["step_time_s"]["mean"])
    assert result["tflops_per_gpu"]["source"] == "recomputed" and result["tflops_per_gpu"]["mean"] > 0
    assert result["mfu"]["value"] is None and "mini" in result["not_comparable_because"][0]
    assert result["versions"]["megatron-bridge"] and result["image"]["digest"]
    assert "step 50/50" in done.stderr and "to go" in done.stderr
    seen = json.loads((folder / "seen.json").read_text())
    assert "torch" in json.dumps(seen)


def test_the_second_start_builds_nothing(train: Callable[..., Any], read_result: Result) -> None:
    begun = time.time()
    done, folder = train("grok1", "--steps", "8")
    assert done.returncode == 0, done.stderr
    log = next(folder.glob("log-*.out"))
    assert "environment" not in done.stderr and log.stat().st_ctime > begun
    assert read_result(folder)["window"]["policy"] == "auto"


@pytest.mark.parametrize(
    ("arguments", "ranks"),
    [
        (["llama4"], 1),
        (["llama3.1", "--dtype", "fp32"], 1),
        (["llama3.1", "--size", "mini", "--gpus", "2"], 2),
        (["llama3.1", "--size", "mini", "--gpus", "2", "--set", "tp=2"], 2),
        (["llama3.1", "--size", "mini", "--gpus", "2", "--set", "pp=2"], 2),
        (["grok1", "--size", "mini", "--gpus", "2", "--set", "ep=2"], 2),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else str(value),
)
def test_minis_really_train(train: Callable[..., Any], read_result: Result, arguments: list[str], ranks: int) -> None:
    done, folder = train(*arguments, "--steps", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    result = read_result(folder)
    assert (result["status"], result["steps_seen"]) == ("completed", 8)
    assert math.isfinite(result["loss"]["last"]) and result["loss"]["last"] < result["loss"]["first"]
    logs = [folder / f"rank-{rank}.log" for rank in range(ranks)] if ranks > 1 else [next(folder.glob("log-*.out"))]
    last = logs[-1].read_text()
    assert len(ITERATION.findall(last)) == 8, "the last rank prints every iteration, in a log of its own"
    for line in last.splitlines():
        assert line.count("consumed samples:") <= 1, line


def test_a_checkpoint_is_saved_and_resumed_by_one_step(train: Callable[..., Any], read_result: Result) -> None:
    done, folder = train("llama3.1", "--steps", "6", env={"ENABLE_CHECKPOINT": "true"})
    assert done.returncode == 0, done.stdout
    weights = list(folder.rglob("*.distcp"))
    assert weights, "weights/*.distcp were written"
    done, resumed = train("llama3.1", env={"LOAD_CHECKPOINT_PATH": str(weights[0].parent.parent)})
    assert done.returncode == 0, done.stdout + done.stderr
    result = read_result(resumed)
    assert (result["status"], result["steps_seen"]) == ("completed", 1)
    assert result["step_time_s"]["mean"] is None and result["tokens_per_s"] is None and result["mfu"]["value"] is None


def test_a_diverged_loss_is_a_failure(train: Callable[..., Any], read_result: Result) -> None:
    done, folder = train("llama3.1", "--steps", "8", "--set", "lr=1e30")
    assert done.returncode == 1
    result = read_result(folder)
    assert (result["status"], result["data_valid"]) == ("failed", False)
    assert "nan" in result["cause"].lower() or "not finite" in result["cause"]


def test_out_of_memory_is_told_with_its_cause(train: Callable[..., Any], read_result: Result) -> None:
    done, folder = train("llama3.1", "--steps", "4", "--set", "hidden_size=1024", "--set",
                         "ffn_hidden_size=40000000")  # fmt: skip
    assert done.returncode == 1
    result = read_result(folder)
    assert result["status"] == "out_of_memory" and "memory" in result["cause"]


def test_parse_reads_the_run_folders(llmbx: Llmbx, shared_install: Path, train: Callable[..., Any]) -> None:
    _, folder = train("llama3.1", "--steps", "8")
    rows = json.loads(llmbx("parse", str(folder), "--format", "json", install=shared_install).stdout)
    (row,) = rows
    result = json.loads((folder / "result.json").read_text())
    assert row["steps_measured"] == result["steps_measured"]
    assert row["step_time_mean_s"] == pytest.approx(result["step_time_s"]["mean"])


@pytest.fixture
def silent_index() -> Any:
    """A package index on loopback that accepts connections and never answers: a stand-in for a hanging network."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(16)
        yield f"http://127.0.0.1:{server.getsockname()[1]}/simple"


def no_packages(url: str) -> dict[str, str]:
    return {"PIP_INDEX_URL": url, "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull,
            "PIP_RETRIES": "0", "PIP_NO_CACHE_DIR": "1"}  # fmt: skip


def test_no_network_during_the_build_is_exit_4(llmbx: Llmbx, install: Path, read_result: Result) -> None:
    done = llmbx("run", "grok1", env=no_packages("http://127.0.0.1:9/simple"))
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr and done.stderr.strip().splitlines()[-1].startswith("llmbx: ")
    (record,) = install.glob("workloads/*/experiments/*/*/*/run.json")
    result = read_result(record.parent)
    assert (result["status"], result["exit_code"]) == ("failed", 4) and result["cause"]


def test_ctrl_c_during_the_build_leaves_a_truthful_record(
    background: Callable[..., subprocess.Popen[str]], install: Path, read_result: Result, silent_index: str
) -> None:
    process = background("run", "grok1", env=no_packages(silent_index))
    end = time.monotonic() + PATIENCE_S
    while not list(install.glob("venvs/*.log")):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    (record,) = install.glob("workloads/*/experiments/*/*/*/run.json")
    assert read_result(record.parent)["status"] == "cancelled"


def test_a_gated_tokenizer_stops_before_the_start(llmbx: Llmbx, install: Path) -> None:
    real = ["--gpu-type", "gb200", "--gpus", "128", "--dtype", "fp8"]
    done = llmbx("run", "grok1", *real, "--set", "tokenizer=hub")
    assert done.returncode == 2
    assert "huggingface.co/meta-llama/Meta-Llama-3-70B" in done.stderr and "HF_TOKEN" in done.stderr
    assert not list(install.glob("workloads/**/log-*.out"))


OTHER_TRAININGS = {
    "step 1 has 2 samples, not the 4 asked for (check batch)": {"global_batch_size": 2},
    "the framework computes in bf16, not in fp32 (check dtype)": {"dtype": "bf16"},
}


def test_another_training_than_the_one_asked_for_is_invalid(
    train: Callable[..., Any], read_result: Result, tmp_path: Path
) -> None:
    """The ranks read another specification than the run's, and train without an error."""
    _, folder = train("llama3.1", "--steps", "8", "--window", "auto")
    assert read_result(folder)["data_valid"]
    spec, other = json.loads((folder / "spec.json").read_text()), tmp_path / "other.json"
    for cause, change in OTHER_TRAININGS.items():
        other.write_text(json.dumps({**spec, **change}))
        done, folder = train("llama3.1", "--steps", "8", "--window", "auto", "--env", f"LLMBX_SPEC={other}")
        result = read_result(folder)
        assert (done.returncode, result["status"], result["exit_code"], result["data_valid"]) == (1, "failed", 0, False)
        assert result["cause"] == cause
