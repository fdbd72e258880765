"""Event files and offline runs as the real packages write them: tensorboardX, TensorBoard's own classes, and wandb."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmbx.logs.sources.files import reader_of
from llmbx.model import SourceRecord
from llmbx.model.measure import SourceKind

ROOT = Path(__file__).parents[2]

PACKAGES = ("tensorboardX==2.6.5", "tensorboard==2.21.0", "wandb==0.31.0", "setuptools<81")

TENSORBOARD = """
import sys
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util
from tensorboardX import SummaryWriter
import numpy

old = SummaryWriter(sys.argv[1] + "/old-rank-2")
for step in range(1, 6):
    old.add_scalar("images", 10 * step, step, walltime=1000.5 + step)
    old.add_scalar("loss", float("nan") if step == 3 else 1 / step, step, walltime=1000.5 + step)
old.add_histogram("weights", numpy.arange(1000.0), 5)
old.add_image("picture", numpy.zeros((3, 300, 300)), 5)
old.add_text("note", "words", 5)
old.close()

new = EventFileWriter(sys.argv[1] + "/new")
for step in range(1, 6):
    for tag, value in (("images", numpy.float32(10 * step)), ("exact", numpy.float64(0.1 * step))):
        tensor = tensor_util.make_tensor_proto(value)
        summary = Summary(value=[Summary.Value(tag=tag, tensor=tensor)])
        new.add_event(Event(wall_time=1000.5 + step, step=step, summary=summary))
new.close()
"""

WANDB = """
import os, sys
import wandb

run = wandb.init(project="test", dir=sys.argv[1], settings=wandb.Settings(x_disable_stats=True))
for step in range(1, 6):
    text = "x" * (70_000 if step == 4 else 10)
    run.log({"images": 10 * step, "time": {"communication": 0.5 * step}, "text": text}, step=step)
run.finish()
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """The Python of an environment with the packages that write such files."""
    folder = Path(os.environ.get("LLMBX_TEST_ROOT", ROOT / ".test")) / "trackers"
    ready = folder / f"ready-{'-'.join(PACKAGES).replace('<', '-')}"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        ready.touch()
    return folder / "bin/python"


def write(python: Path, code: str, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    env = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "HOME": str(folder)}
    command = [str(python), "-c", code, str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def records(kind: SourceKind, path: Path) -> tuple[list[SourceRecord], list[str]]:
    """The records of a file read at once and byte by byte, which must be the same, and the faults."""
    data, found = path.read_bytes(), []
    for size in (len(data), 1):
        reader = reader_of(kind, path.name, 2)
        parts = [record for at in range(0, len(data), size) for record in reader.feed(data[at : at + size])]
        found.append([*parts, *reader.close()])
    assert repr(found[0]) == repr(found[1])
    return found[0], reader.faults.lines("file")


def of_tag(found: list[SourceRecord], tag: str) -> Iterator[tuple[int | None, float | None, object]]:
    return ((one.step, one.wall_time, one.values[tag]) for one in found if tag in one.values)


def test_event_files(python: Path, tmp_path: Path) -> None:
    write(python, TENSORBOARD, tmp_path / "tb")
    (old,), (new,) = ([*(tmp_path / "tb" / name).glob("events.out.tfevents.*")] for name in ("old-rank-2", "new"))
    expected = [(step, 1000.5 + step, 10.0 * step) for step in range(1, 6)]
    found, faults = records("tensorboard", old)
    assert [*of_tag(found, "images")] == expected
    assert [str(value) for *_, value in of_tag(found, "loss")] == ["1.0", "0.5", "nan", "0.25", "0.20000000298023224"]
    assert {tag for one in found for tag in one.values} == {"images", "loss"}, "no histograms, images and texts"
    assert len(faults) <= 1 and all("longer than 64 KiB" in line for line in faults), "the picture or the histogram"
    found, faults = records("tensorboard", new)
    assert [*of_tag(found, "images")] == expected and faults == []
    assert [value for *_, value in of_tag(found, "exact")] == [0.1 * step for step in range(1, 6)]


def test_an_offline_run(python: Path, tmp_path: Path) -> None:
    write(python, WANDB, tmp_path / "wandb")
    (path,) = tmp_path.glob("wandb/wandb/offline-run-*/run-*.wandb")
    found, faults = records("wandb", path)
    assert [(one.step, one.values["images"], one.values["time.communication"]) for one in found] == [
        (step, 10 * step, 0.5 * step) for step in (1, 2, 3, 5)
    ]
    assert faults == ["file: 2 records are longer than 64 KiB and skipped"], "history and summary of step 4"
    assert all(one.wall_time and one.wall_time == one.values["_timestamp"] for one in found)
    assert json.loads(json.dumps(found[0].values["text"])) == "x" * 10


def test_truncated_files_keep_their_complete_records(python: Path, tmp_path: Path) -> None:
    write(python, TENSORBOARD, tmp_path / "tb")
    (path,) = (tmp_path / "tb/new").glob("events.out.tfevents.*")
    whole = len(records("tensorboard", path)[0])
    for cut in (1, 30, 200):
        short = tmp_path / "short"
        short.write_bytes(path.read_bytes()[:-cut])
        found, faults = records("tensorboard", short)
        assert 0 < len(found) < whole and faults == ["file: the last record is incomplete and skipped"]
