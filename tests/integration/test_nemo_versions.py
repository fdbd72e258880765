"""Minis on the Megatron-Bridge versions that the catalog's images hold, beside the one of llmbx's own environment.

Each version is an overlay on the shared packages of that environment: Megatron-Bridge and Megatron-Core alone, put on
the path of a run on the host, as a user's own installation would be. All versions compute the same model from the same
mock data, so that they must print the same losses: those of one version check what the entry sets on another.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .nemo_versions import BRIDGE, overlay
from .test_nemo_entry import nemo_python

__all__ = ["nemo_python"]

Proves = Callable[[str, object], None]
Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Train = Callable[..., Path]

OWN = "own"
LOSS = re.compile(r"iteration +(\d+)/.*?lm loss: (\S+)")


@pytest.fixture
def train(llmbx: Llmbx, install: Path, nemo_python: str, shared_install: Path) -> Train:
    """`train("0.1.0rc3", "grok1", …)`: the folder of a completed run of four steps on that version."""

    def run(version: str, workload: str, *more: str, verb: str = "run", steps: int = 4, **variables: str) -> Path:
        env = {"LLMBX_PYTHON": nemo_python, "PYTHONDONTWRITEBYTECODE": "", **variables}
        if version != OWN:
            env["PYTHONPATH"] = str(overlay(BRIDGE, version, shared_install.parent))
        length = ("--max-steps", "4") if steps == 4 else ()  # a run that resumes trains one step more
        asked = (verb, "nemo", workload, "--runtime", "host", *length, *more, "--format", "json")
        done = llmbx(*asked, env=env)
        assert done.returncode == 0, done.stderr + done.stdout
        result: dict[str, Any] = json.loads(done.stdout)
        assert (result["status"], result["data_valid"], result["steps_seen"]) == ("completed", True, steps)
        assert result["peak_memory_gb"] is None, "there is no device whose memory was used"
        found = result["versions"].get("megatron-bridge")
        assert found is None or version in (OWN, found)
        (record,) = [p for p in install.glob("workloads/*/experiments/*/*/*/run.json") if result["run_id"] in str(p)]
        return record.parent

    return run


def losses(folder: Path) -> list[float]:
    """The loss of every step, as the framework printed it."""
    return [float(loss) for _, loss in LOSS.findall(log_of(folder))]


def log_of(folder: Path) -> str:
    """The run's log."""
    (log,) = folder.glob("log-*.out")
    return log.read_text()


def seen_version(folder: Path) -> str:
    """The Megatron-Bridge that the rank found."""
    return str(json.loads((folder / "seen.json").read_text())["versions"]["megatron-bridge"])


@pytest.mark.parametrize("workload", ["grok1", "llama3.1", "llama4"])
def test_minis_train_on_every_images_version_and_print_the_same_losses(
    workload: str, train: Train, record_property: Proves
) -> None:
    own = losses(train(OWN, workload))
    assert len(own) == 4 and own[-1] < own[0]
    for version in BRIDGE:
        folder = train(version, workload)
        assert seen_version(folder) == version
        assert losses(folder) == pytest.approx(own, abs=2e-5), version
        proven = {"claim": "trains", "workload": workload, "version": f"Megatron-Bridge {version}", "ranks": 1}
        record_property("proves", proven)


@pytest.mark.parametrize(
    ("workload", "letters"),
    [
        ("llama3.1", ("tp=2",)),
        ("llama3.1", ("pp=2",)),
        ("llama3.1", ("pp=2", "vp=2")),
        ("grok1", ("ep=2",)),
        ("grok1", ("pp=2", "vp=2")),
    ],
)
def test_parallel_minis_are_built_for_real_on_the_oldest_version(
    workload: str, letters: tuple[str, ...], train: Train, record_property: Proves
) -> None:
    more = [word for letter in letters for word in ("--set", letter)]
    old, own = (
        losses(train(version, workload, "--size", "mini", "--gpus", "2", *more)) for version in ("0.1.0rc3", OWN)
    )
    assert len(own) == 4 and own[-1] < own[0]
    assert old == pytest.approx(own, abs=2e-5)
    split = " ".join(letters).upper().replace("=", " ")
    proven = {"claim": "trains", "workload": workload, "version": "Megatron-Bridge 0.1.0rc3", "ranks": 2}
    record_property("proves", {**proven, "split": split})


def test_checkpoints_and_profiles_of_a_version_without_callbacks(train: Train) -> None:
    saved = train("0.1.0rc3", "llama3.1", ENABLE_CHECKPOINT="true")
    assert (saved / "checkpoints" / "latest_checkpointed_iteration.txt").read_text() == "4"
    assert len(list((saved / "checkpoints").glob("iter_*"))) == 1
    resumed = train("0.1.0rc3", "llama3.1", steps=1, LOAD_CHECKPOINT_PATH=str(saved / "checkpoints"))
    assert [step for step, _ in LOSS.findall(log_of(resumed))] == ["5"]
    profiled = train("0.1.0rc3", "llama3.1", "--steps", "2-3", "--tool", "torch", verb="profile")
    assert list((profiled / "torch_profile").glob("rank0.pt.trace.json.gz"))
