"""The payload of a launch is sufficient to run without an installed llmbx."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from llmbx.launchers.payload import payload_files
from llmbx.model import RunSpec

Spec = Callable[..., RunSpec]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An importable package `carried_toy` with a program and a module in its folder `entry`."""
    entry = tmp_path / "sources" / "carried_toy" / "entry"
    entry.mkdir(parents=True)
    (entry.parent / "__init__.py").touch()
    (entry / "__init__.py").touch()
    (entry / "greet.py").write_text("from llmbx.entry import rank\n\n\ndef greet() -> None:\n    rank.say('up')\n")
    (entry / "train.py").write_text(
        "import llmbx\nfrom carried_toy.entry.greet import greet\nfrom llmbx.entry import rank, seen\n\n"
        "spec, folder = rank.begin()\ngreet()\nseen.write(folder, ())\nprint(spec['steps'], spec['extra'], llmbx)\n"
    )
    monkeypatch.syspath_prepend(str(entry.parents[1]))
    return "carried_toy"


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def test_a_program_runs_with_its_payload(package: str, make_spec: Spec, tmp_path: Path) -> None:
    """It also works with an installed llmbx, which is not used."""
    folder = tmp_path / "run"
    write(folder, payload_files(make_spec(), package, more={"extra": {"name": "more"}}))
    for isolation in (["-S"], []):
        done = subprocess.run(
            [sys.executable, *isolation, "code/train.py"], cwd=folder, env={"PATH": os.environ["PATH"]},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr == "llmbx: up\n" and done.stdout.startswith("20 {'name': 'more'} <module 'llmbx' from")
        assert str(folder) in done.stdout and (folder / "seen.json").is_file()


def test_the_specification_is_passed_completely(package: str, make_spec: Spec) -> None:
    spec = make_spec(settings={"rate": 0.5}, tags=("a b",))
    job = json.loads(payload_files(spec, package, more={"extra": None})["spec.json"])
    assert job.pop("extra", "missing") is None
    assert msgspec.convert(job, RunSpec) == spec
