"""Minis on the Megatron-Bridge versions that the catalog's images hold, beside the one of llmbx's own environment.

Each version is an overlay on the shared packages of that environment: Megatron-Bridge and Megatron-Core alone, put on
the path of a run on the host, as a user's own installation would be. The newest version has an environment of its own,
because it needs Python 3.12. All versions compute the same model from the same mock data, so that they must print the
same losses: those of one version check what the entry sets on another.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx_nemo.image_versions import image_versions
from llmbx_nemo.launch import request as image_request

from .conftest import prepared
from .nemo_versions import BRIDGE, NEWEST_ENVIRONMENT, overlay
from .test_nemo_entry import nemo_python, resolved

__all__ = ["nemo_python"]

Proves = Callable[[str, object], None]
Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Train = Callable[..., Path]

OWN = "own"
RECIPE = "bridge-0.6-mini"
(NEWEST,) = (
    pin.partition("==")[2]
    for image in image_versions() if image.environment == NEWEST_ENVIRONMENT
    for pin in image.packages if pin.startswith("megatron-bridge==")
)  # fmt: skip
LOSS = re.compile(r"iteration +(\d+)/.*?lm loss: (\S+)")


@pytest.fixture(scope="session")
def newest_python(shared_install: Path) -> str:
    """The interpreter of the newest version's environment."""
    return prepared(image_request(resolved("grok1", recipe=RECIPE)), shared_install).python


@pytest.fixture
def install(tmp_path: Path, shared_install: Path) -> Path:
    """An install of this test's own, with the shared environments."""
    folder = tmp_path / "install"
    folder.mkdir()
    for built in ("venvs", "cache"):
        (folder / built).symlink_to(shared_install / built)
    return folder


@pytest.fixture
def train(llmbx: Llmbx, install: Path, nemo_python: str, shared_install: Path, request: pytest.FixtureRequest) -> Train:
    """`train("0.1.0rc3", "grok1", …)`: the folder of a completed run of four steps on that version."""

    def run(version: str, workload: str, *more: str, verb: str = "run", steps: int = 4, **variables: str) -> Path:
        python = request.getfixturevalue("newest_python") if version == NEWEST else nemo_python
        env = {"LLMBX_PYTHON": python, "PYTHONDONTWRITEBYTECODE": "", **variables}
        if version in BRIDGE:
            env["PYTHONPATH"] = str(overlay(BRIDGE, version, shared_install.parent))
        length = ("--max-steps", "4") if steps == 4 else ()  # a run that resumes trains one step more
        asked = (verb, "nemo", workload, "--runtime", "host", *length, *more, "--format", "json")
        done = llmbx(*asked, env=env)
        assert done.returncode == 0, done.stderr + done.stdout
        result: dict[str, Any] = json.loads(done.stdout)
        assert (result["status"], result["data_valid"], result["steps_seen"]) == ("completed", True, steps)
        assert result["peak_memory_gb"] is None, "there is no device whose memory was used"
        if version != OWN:
            assert result["versions"]["megatron-bridge"] == version, "nothing but the rank knows what the host has"
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
    for version in (*BRIDGE, NEWEST):
        folder = train(version, workload)
        assert seen_version(folder) == version
        assert losses(folder) == pytest.approx(own, abs=2e-5), version
        proven = {"claim": "trains", "workload": workload, "version": f"Megatron-Bridge {version}", "ranks": 1}
        record_property("proves", proven)


def test_the_newest_version_has_a_recipe_of_its_own(llmbx: Llmbx, newest_python: str) -> None:
    done = llmbx("run", "--plugin", "nemo", "grok1", "--recipe", RECIPE, "--max-steps", "4", "--format", "json")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "Error" not in done.stderr, "the progress shows nothing that looks like a failure"
    result: dict[str, Any] = json.loads(done.stdout)
    assert (result["status"], result["data_valid"], result["steps_seen"]) == ("completed", True, 4)
    assert result["versions"]["megatron-bridge"] == NEWEST


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
def test_parallel_minis_are_built_for_real_on_the_oldest_and_the_newest_version(
    workload: str, letters: tuple[str, ...], train: Train, record_property: Proves
) -> None:
    more = [word for letter in letters for word in ("--set", letter)]
    versions = ("0.1.0rc3", NEWEST)
    old, new = (losses(train(version, workload, "--size", "mini", "--gpus", "2", *more)) for version in versions)
    assert len(old) == 4 and old[-1] < old[0]
    assert new == pytest.approx(old, abs=2e-5)
    split = " ".join(letters).upper().replace("=", " ")
    for version in versions:
        proven = {"claim": "trains", "workload": workload, "version": f"Megatron-Bridge {version}", "ranks": 2}
        record_property("proves", {**proven, "split": split})


def test_parameters_sharded_by_fsdp2_give_the_losses_of_replicated_ones(train: Train, record_property: Proves) -> None:
    sharding = ("--set", "overrides=dist.use_torch_fsdp2=true")
    whole, sharded = (
        losses(train(NEWEST, "llama3.1", "--size", "mini", "--gpus", "2", *more)) for more in ((), sharding)
    )
    assert len(whole) == 4 and whole[-1] < whole[0]
    assert sharded == pytest.approx(whole, abs=2e-5)
    proven = {"claim": "trains", "workload": "llama3.1", "version": f"Megatron-Bridge {NEWEST}", "ranks": 2}
    record_property("proves", {**proven, "split": "FSDP2"})


def test_checkpoints_and_profiles_of_a_version_without_callbacks(train: Train) -> None:
    saved = train("0.1.0rc3", "llama3.1", ENABLE_CHECKPOINT="true")
    assert (saved / "checkpoints" / "latest_checkpointed_iteration.txt").read_text() == "4"
    assert len(list((saved / "checkpoints").glob("iter_*"))) == 1
    resumed = train("0.1.0rc3", "llama3.1", steps=1, LOAD_CHECKPOINT_PATH=str(saved / "checkpoints"))
    assert [step for step, _ in LOSS.findall(log_of(resumed))] == ["5"]
    profiled = train("0.1.0rc3", "llama3.1", "--steps", "2-3", "--tool", "torch", verb="profile")
    assert list((profiled / "torch_profile").glob("rank0.pt.trace.json.gz"))
