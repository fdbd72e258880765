"""An offline run as W&B's own package writes it, read while it is followed and after it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmbx.logs.parser import LogParser
from llmbx.logs.source_files import SourceFiles
from llmbx.model import Event, Source, SourceRecord, Step
from llmbx.plugins.log_parser import CheckedParser
from llmbx.plugins.manager import load

WANDB = """
import sys
import wandb

run = wandb.init(project="test", dir=sys.argv[1], settings=wandb.Settings(x_disable_stats=True))
for step in range(1, 6):
    text = "x" * (70_000 if step == 4 else 10)
    loss = float("nan") if step == 3 else 1 / step
    run.log({"images": 10 * step, "loss": loss, "time": {"communication": 0.5 * step}, "text": text}, step=step)
run.finish()
"""


class Images(LogParser):
    """The images of each step."""

    sources = (Source(glob="wandb/**/run-*.wandb", kind="wandb"),)

    def feed(self, line: str) -> list[Step]:
        return []

    def feed_record(self, record: SourceRecord) -> list[Step]:
        return [Step(number=record.step or 0, loss=record.number("loss"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an offline run."""
    folder = tmp_path_factory.mktemp("run")
    env = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "HOME": str(folder)}
    command = [sys.executable, "-c", WANDB, str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def file(folder: Path) -> Path:
    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    return path


def test_the_history_is_read_and_what_is_too_long_is_named(file: Path) -> None:
    reader = load().source_reader("wandb")(file.name, 2)
    with file.open("rb") as stream:
        records = [*reader.read(stream), *reader.close()]
    assert [(record.step, record.values["images"], record.values["time.communication"]) for record in records] == [
        (step, 10 * step, 0.5 * step) for step in (1, 2, 3, 5)
    ]
    losses = [record.values["loss"] for record in records]
    assert losses[:2] == [1.0, 0.5] and math.isnan(float(str(losses[2])))
    assert all(record.rank == 2 and record.wall_time == record.values["_timestamp"] for record in records)
    assert reader.faults.lines("file") == ["file: 2 records are longer than 64 KiB and skipped"]


def test_a_followed_run_has_each_step_once_while_its_file_grows(file: Path, tmp_path: Path) -> None:
    content, copy = file.read_bytes(), tmp_path / "wandb" / "offline-run-1" / "run-1.wandb"
    copy.parent.mkdir(parents=True)
    sources, records = SourceFiles(tmp_path, CheckedParser(Images(), "x", load().source_reader)), list[Step | Event]()
    seen = []
    for size in (100, len(content) // 2, len(content) - 30, len(content)):
        copy.write_bytes(content[:size])
        assert sources.advance(records.append)
        seen.append(len(records))
    assert [record.number for record in records if isinstance(record, Step)] == [1, 2, 3, 5]
    assert 0 <= seen[0] <= seen[1] < seen[3] == 4
    assert not sources.advance(records.append), "it has not grown"
