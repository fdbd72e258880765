"""Faults injected into small trainings of two ranks, and what `llmbx explain` says: a part of benchmarks/explain.

`make explain-faults` has all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llmbx.catalog.environments import load_environment
from llmbx.model import ImageRequest

from .conftest import Llmbx, prepared

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "benchmarks" / "explain"
LOCK = ROOT / "examples/torch_lm/src/llmbx_torch_lm/environments/torch_lm.toml"
FAULTS = {
    "cpu-contention": 1,
    "paused-process": 0,
    "data-loading": 1,
    "garbage-collection": 0,
    "slow-rank": 0,
}
"""Names in tuning.toml, with the rank that has the fault."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, shared_install: Path) -> Path:
    """The folder with the recorded runs."""
    image = prepared(ImageRequest(environment=load_environment(LOCK)), shared_install)
    folder = tmp_path_factory.mktemp("faults")
    program = [sys.executable, str(PROGRAM / "record.py"), str(PROGRAM / "tuning.toml"), str(folder)]
    subprocess.run([*program, "--python", str(image.python), "--only", ",".join(FAULTS)], check=True)
    return folder


@pytest.mark.parametrize(("fault", "rank"), FAULTS.items())
def test_an_injected_fault_is_named_first(llmbx: Llmbx, recorded: Path, fault: str, rank: int) -> None:
    runs: dict[str, Any] = json.loads((recorded / "tuning.json").read_text())["faults"][fault]
    env = {"LLMBX_PLUGINS": str(PROGRAM / "mini")}
    done = llmbx("explain", runs["run"], "--format", "json", install=recorded / "install", env=env)
    first = json.loads(done.stdout)["causes"][0]
    assert (first["id"], first["rank"]) == (fault, rank), done.stdout
