"""Exports through the packages of other tools: what their own readers find in the folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..conftest import ROOT, Llmbx

REQUIREMENTS = ("wandb>=0.19", "mlflow-skinny>=3.0")
CLOSED = "http://127.0.0.1:9"  # nothing listens there: an attempt to connect fails

READ_WANDB = """
import json, struct, sys
from pathlib import Path
from wandb.proto import wandb_internal_pb2

def records(data):
    # After 7 bytes, the log format of LevelDB (its doc/log_format.md): blocks of 32 KiB with parts of records
    place, record = 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        record += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""

found = {"history": [], "summary": {}, "config": {}}
for data in records(Path(sys.argv[1]).read_bytes()):
    record = wandb_internal_pb2.Record()
    record.ParseFromString(data)
    kind = record.WhichOneof("record_type")
    name = lambda item: item.key or ".".join(item.nested_key)
    if kind == "run":
        found["id"], found["name"], found["tags"] = record.run.run_id, record.run.display_name, list(record.run.tags)
        found["config"].update({item.key: json.loads(item.value_json) for item in record.run.config.update})
    if kind == "history":
        found["history"].append({name(item): json.loads(item.value_json) for item in record.history.item})
    if kind == "summary":
        found["summary"].update({name(item): json.loads(item.value_json) for item in record.summary.update})
    if kind == "exit":
        found["exit"] = record.exit.exit_code
print(json.dumps(found))
"""

READ_MLFLOW = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(tracking_uri="file://" + sys.argv[1])
found = []
for experiment in client.search_experiments():
    for run in client.search_runs([experiment.experiment_id]):
        loss = [[m.step, m.value] for m in client.get_metric_history(run.info.run_id, "step.loss")]
        found.append({"experiment": experiment.name, "name": run.info.run_name, "status": run.info.status,
                      "metrics": run.data.metrics, "params": run.data.params, "tags": run.data.tags, "loss": loss,
                      "took": (run.info.end_time or 0) - run.info.start_time})
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def packages() -> dict[str, str]:
    """The environment variables with which the packages are found; nothing can be reached through the network."""
    folder = Path(os.environ.get("LLMBX_TEST_ROOT", ROOT / ".test")) / "exporters"
    if not (folder / ".ready").exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "--upgrade"]
        subprocess.run([*install, *REQUIREMENTS], check=True, timeout=1200)
        (folder / ".ready").touch()
    return {"PYTHONPATH": str(folder), "http_proxy": CLOSED, "https_proxy": CLOSED, "WANDB_BASE_URL": CLOSED,
            "MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}  # fmt: skip


@pytest.fixture
def reader(packages: dict[str, str]) -> Callable[[str, Path], Any]:
    def read(program: str, path: Path) -> Any:
        command = [sys.executable, "-c", program, str(path)]
        done = subprocess.run(command, env={**os.environ, **packages}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return read


@pytest.fixture
def result(llmbx: Llmbx) -> dict[str, Any]:
    done = llmbx("run", "line", "--tag", "nightly", "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_wandb_reads_its_offline_run(
    llmbx: Llmbx, result: dict[str, Any], packages: dict[str, str], tmp_path: Path, reader: Callable[[str, Path], Any]
) -> None:
    done = llmbx("export", "wandb", "last", "--output", str(tmp_path / "out"), env=packages)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    (file,) = (tmp_path / "out").glob("wandb/offline-run-*/run-*.wandb")
    found = reader(READ_WANDB, file)
    assert (found["id"], found["name"], found["tags"]) == (result["id"], result["run_id"], ["nightly"])
    assert found["summary"]["step_time_s.mean"] == pytest.approx(result["step_time_s"]["mean"])
    assert (found["summary"]["status"], found["summary"]["comparable"], found["exit"]) == ("completed", "false", 0)
    assert "mfu.value" not in found["summary"], "unknown"
    assert found["config"]["workload.name"] == "line" and found["config"]["workload.gpus"] == 1
    assert len(found["history"]) == 20 and found["history"][-1]["loss"] == pytest.approx(result["loss"]["last"])
    assert [step["_step"] for step in found["history"]] == list(range(1, 21))


def test_mlflow_reads_its_store_and_a_run_is_there_once(
    llmbx: Llmbx, result: dict[str, Any], packages: dict[str, str], tmp_path: Path, reader: Callable[[str, Path], Any]
) -> None:
    for written in ("1 run written", "0 runs written"):
        done = llmbx("export", "mlflow", "last", "--output", str(tmp_path / "store"), env=packages)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert written in done.stderr
    (found,) = reader(READ_MLFLOW, tmp_path / "store")
    assert (found["experiment"], found["name"], found["status"]) == ("line", result["run_id"], "FINISHED")
    assert found["metrics"]["step_time_s.mean"] == pytest.approx(result["step_time_s"]["mean"])
    assert "mfu.value" not in found["metrics"], "unknown"
    assert (found["tags"]["status"], found["tags"]["data_valid"], found["tags"]["tag.nightly"]) == (
        "completed", "true", "true")  # fmt: skip
    assert found["params"]["workload.gpus"] == "1"
    assert [step for step, _ in found["loss"]] == list(range(1, 21))
    assert found["loss"][-1][1] == pytest.approx(result["loss"]["last"])
    assert found["took"] == pytest.approx(1000 * result["timing"]["total_s"], abs=2)
