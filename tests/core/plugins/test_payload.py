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

from llmbx.model import RunSpec
from llmbx.plugins.payload import payload_files

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


def test_modules_of_plugins_travel_beside_those_of_core(
    package: str, make_spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module has the import path of core's, in the run folder and where llmbx is installed."""
    project = tmp_path / "sources" / "mine"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[project]\nname = "mine"\n[project.entry-points."llmbx.entry"]\n'
        'tick = "carried_toy.entry.greet"\nrank = "carried_toy.entry.greet"\n'
    )
    monkeypatch.setenv("LLMBX_PLUGINS", str(project))
    files = payload_files(make_spec(), package)
    assert b"rank.say('up')" in files["code/llmbx/entry/tick.py"]
    assert b"class Rank" in files["code/llmbx/entry/rank.py"]


def test_a_module_that_no_plugin_brings_cannot_be_imported() -> None:
    with pytest.raises(ImportError, match="absent_toy"):
        from llmbx.entry import absent_toy  # noqa: F401


def test_the_specification_is_passed_completely(package: str, make_spec: Spec) -> None:
    spec = make_spec(settings={"rate": 0.5}, tags=("a b",))
    job = json.loads(payload_files(spec, package, more={"extra": None})["spec.json"])
    assert job.pop("extra", "missing") is None
    assert msgspec.convert(job, RunSpec) == spec
