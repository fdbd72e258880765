"""NeMo 2 minis: the entry of the published NeMo 2 recipes, trained on the versions inside their images.

The versions are overlays on the packages of llmbx's own environment with NeMo 2, put on the path of a run on the host,
as a user's own installation would be. NeMo's mock tokens are random, so that the loss of new samples stays at the
logarithm of the vocabulary; a model that has learnt shows in samples that it has seen.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.model import ExpectedConfiguration
from llmbx.record.folder import read_run
from llmbx_nemo.launch import request
from llmbx_nemo.upstream import of_run

from .conftest import prepared
from .nemo_versions import NEMO2, overlay
from .test_nemo_entry import resolved

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Train = Callable[..., Path]
Proves = Callable[[str, object], None]

VOCABULARY = 1024
LINE = re.compile(r"iteration (\d+)/\d+ .*?global_batch_size: (\d+) .*?reduced_train_loss: (\S+)")


@pytest.fixture(scope="session")
def nemo2_python(shared_install: Path) -> str:
    """The interpreter of the environment with NeMo 2."""
    spec = resolved("llama3.1", recipe="nemo2-mini")
    return prepared(request(spec), shared_install).python


@pytest.fixture
def train(llmbx: Llmbx, install: Path, nemo2_python: str, shared_install: Path) -> Train:
    """`train("2.2.1", "grok1", …)`: the folder of a completed run of four steps on that version."""

    def run(version: str, workload: str, *more: str, steps: int = 4, **variables: str) -> Path:
        env = {"LLMBX_PYTHON": nemo2_python, "PYTHONDONTWRITEBYTECODE": "", **variables}
        env["PYTHONPATH"] = str(overlay(NEMO2, version, shared_install.parent))
        length = ("--max-steps", str(steps)) if steps > 1 else ()  # a run that resumes trains one step more
        asked = ("run", "nemo", workload, "--recipe", "nemo2-mini", "--runtime", "host", *length, *more)
        done = llmbx(*asked, "--format", "json", env=env)
        assert done.returncode == 0, done.stderr + done.stdout
        result: dict[str, Any] = json.loads(done.stdout)
        assert (result["status"], result["data_valid"], result["steps_seen"]) == ("completed", True, steps)
        (record,) = [p for p in install.glob("workloads/*/experiments/*/*/*/run.json") if result["run_id"] in str(p)]
        return record.parent

    return run


def losses(folder: Path) -> list[float]:
    """The loss of every step, as NeMo printed it."""
    (log,) = folder.glob("log-*.out")
    return [float(loss) for _, _, loss in LINE.findall(log.read_text())]


def final(folder: Path) -> dict[str, Any]:
    """What NeMo trained with, as rank 0 wrote it."""
    found: dict[str, Any] = json.loads((folder / "configs/final.json").read_text())
    return found


@pytest.mark.parametrize(
    ("version", "workload"),
    [
        ("2.2.1", "llama3.1"), ("2.2.1", "grok1"),
        ("2.3.0", "llama3.1"), ("2.3.0", "grok1"), ("2.3.0", "llama4"),
        ("2.3.1", "llama3.1"), ("2.3.1", "grok1"),
    ],
)  # fmt: skip
def test_minis_train_on_the_versions_inside_the_images(
    version: str, workload: str, train: Train, record_property: Proves
) -> None:
    check_trained(train(version, workload), version, workload, record_property)


def check_trained(folder: Path, version: str, workload: str, record_property: Proves) -> None:
    """The mini of this workload was trained on this version, and says so."""
    found = losses(folder)
    assert len(found) == 4 and found == pytest.approx([math.log(VOCABULARY)] * 4, abs=0.1)
    evidence = final(folder)
    assert evidence["versions"]["nemo-toolkit"] == version
    values = evidence["final"]
    assert (values["connected.config.num_layers"], values["trainer.max_steps"]) == (4, 4)
    assert values["connected.config.params_dtype"] == "torch.float32"
    experts = {"grok1": 8, "llama4": 16}.get(workload)
    assert values["connected.config.num_moe_experts"] == experts
    record_property("proves", {"claim": "trains", "workload": workload, "version": f"NeMo {version}", "ranks": 1})


def test_a_mini_trains_with_the_configuration_that_is_built_without_training(
    train: Train, llmbx: Llmbx, shared_install: Path, record_property: Proves
) -> None:
    """What may differ is on the list of what the machine decides: on a cluster nothing else may make a run doubtful."""
    folder = train("2.3.1", "llama4")
    check_trained(folder, "2.3.1", "llama4", record_property)
    asked = ("nemo", "llama4", "--recipe", "nemo2-mini", "--max-steps", "4", "--format", "json")
    built = json.loads(llmbx("catalog", "diff", *asked, install=shared_install).stdout)["final"]
    spec = read_run(folder).record.spec
    wanted = ExpectedConfiguration(upstream=built, other=("launch.",), permitted=tuple(of_run(spec, spec.steps)))
    differing = wanted.differences(final(folder)["final"])
    assert {"callbacks.ModelSummary.class", "strategy.cluster_environment"} <= {each.key for each in differing}
    assert [each.row() for each in differing if each.reason is None] == []


@pytest.mark.parametrize(
    ("workload", "letters"),
    [
        ("llama3.1", {"tp": 2}), ("llama3.1", {"pp": 2}), ("grok1", {"ep": 2}), ("grok1", {"pp": 2, "vp": 2}),
        ("grok1", {}),
    ],
)  # fmt: skip
def test_parallel_minis_are_built_for_real(
    workload: str, letters: dict[str, int], train: Train, record_property: Proves
) -> None:
    more = [word for letter, degree in letters.items() for word in ("--set", f"{letter}={degree}")]
    folder = train("2.3.1", workload, "--size", "mini", "--gpus", "2", *more)
    assert losses(folder) == pytest.approx([math.log(VOCABULARY)] * 4, abs=0.1)
    values = final(folder)["final"]
    names = {"tp": "tensor_model", "pp": "pipeline_model", "vp": "virtual_pipeline_model", "ep": "expert_model"}
    built = {letter: values[f"connected.config.{name}_parallel_size"] or 1 for letter, name in names.items()}
    assert built == {"tp": 1, "pp": 1, "vp": 1, "ep": 1} | letters
    assert values["connected.data_parallel_size"] == (1 if {"tp", "pp"} & letters.keys() else 2)
    split = " ".join(f"{letter.upper()} {degree}" for letter, degree in letters.items()) or "DP 2"
    proven = {"claim": "trains", "workload": workload, "version": "NeMo 2.3.1", "ranks": 2, "split": split}
    record_property("proves", proven)


def test_a_checkpoint_is_saved_and_resumed_as_the_recipe_does(train: Train) -> None:
    saved = train("2.2.1", "llama3.1", steps=8, ENABLE_CHECKPOINT="true")
    (checkpoint,) = saved.glob("nemo_experiments/default/checkpoints/*")
    assert checkpoint.name == "default--None=0.0000-epoch=0-consumed_samples=32.0"
    assert list(checkpoint.glob("weights/*.distcp"))
    (log,) = saved.glob("log-*.out")
    assert "Global Checkpoint Save : Rank: 0 : Iteration: 8" in log.read_text()
    resumed = train("2.2.1", "llama3.1", steps=1, LOAD_CHECKPOINT_PATH=str(checkpoint))
    (log,) = resumed.glob("log-*.out")
    assert "Time spent in load_checkpoint" in log.read_text()
    (loss,) = losses(resumed)
    assert loss < losses(saved)[0] - 0.05, "weights of a run that has learnt: its data are those of the first step"


def test_maverick_is_refused_where_the_version_does_not_have_it(
    llmbx: Llmbx, nemo2_python: str, shared_install: Path
) -> None:
    env = {"LLMBX_PYTHON": nemo2_python, "PYTHONPATH": str(overlay(NEMO2, "2.2.1", shared_install.parent))}
    done = llmbx("run", "nemo", "llama4", "--recipe", "nemo2-mini", "--runtime", "host", "--max-steps", "4", env=env)
    assert done.returncode == 1
    assert "this NeMo 2.2.1 has no recipe nemo.collections.llm.recipes.llama4_e128" in " ".join(done.stdout.split())
