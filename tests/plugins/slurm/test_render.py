"""Rendering of Slurm's scripts: golden files, options, and quoting of values."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx.errors import UsageError
from llmbx.model import Phase

from ...core.launchers.conftest import make_launch, make_spec, shell_phase
from ...core.launchers.scripts import INVALID
from ...golden import Golden
from .scripts import OTHERS, PYXIS, WHOLES, slurm, wholes

CASES = {**WHOLES, **OTHERS}


@pytest.mark.parametrize("name", CASES)
def test_golden(golden: Golden, name: str) -> None:
    golden(name, CASES[name](), like={} if name in WHOLES else wholes())


@pytest.mark.parametrize("name", CASES)
def test_rendered_scripts_are_valid_bash(name: str, tmp_path: Path) -> None:
    script = tmp_path / name
    script.write_text(CASES[name]())
    checked = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


ANY = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@settings(max_examples=50, deadline=None)
@given(ANY, ANY)
def test_no_value_breaks_out_of_a_script(argument: str, value: str) -> None:
    phase = Phase(role="train", argv=("python3", argument), env={"NAME": value})
    text = slurm(make_launch(phase))
    assert subprocess.run(["bash", "-n"], input=text.encode(), check=False).returncode == 0


@pytest.mark.parametrize(("phases", "says"), INVALID)
def test_invalid_launches_are_rejected(phases: tuple[Phase, ...], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        slurm(make_launch(*phases))


def header(**changes: object) -> list[str]:
    spec = make_spec(launcher="slurm", **changes)
    lines = slurm(make_launch("true", nodes=2, ranks=8), spec).splitlines()
    return [line.removeprefix("#SBATCH --") for line in lines if line.startswith("#SBATCH")]


def test_a_benchmark_on_gpus_takes_whole_nodes_by_default() -> None:
    whole = {"gpus": 16, "gpu_type": "h100", "mini": False}
    assert {"exclusive", "mem=0", "no-requeue"} <= set(header(**whole))
    assert not {"exclusive", "mem=0"} & set(header(gpus=16))
    told = header(**whole, sbatch={"exclusive": "none", "mem": "64G", "requeue": ""})
    assert {"mem=64G", "requeue"} <= set(told)
    assert not [line for line in told if line.startswith(("exclusive", "no-requeue"))]
    assert "mem=0" not in header(**whole, sbatch={"mem-per-gpu": "100G", "oversubscribe": ""})


def test_secrets_pass_when_not_everything_is_exported() -> None:
    spec = make_spec(secrets=("HF_TOKEN",), env={"WANDB_API_KEY": "x"}, sbatch={"export": "NONE"}, gpus=1)
    text = slurm(make_launch(shell_phase("true", forward=("EXTRA",))), spec)
    assert "#SBATCH --export=HF_TOKEN,EXTRA,WANDB_API_KEY\n" in text
    assert "export=ALL,A" in header(secrets=("HF_TOKEN",), sbatch={"export": "ALL,A"})
    assert not [line for line in header(secrets=("HF_TOKEN",)) if line.startswith("export")]


def test_an_srun_option_of_the_user_comes_after_the_runtimes() -> None:
    spec = make_spec(gpus=2, launcher="slurm", srun={"mpi": "none", "cpu-bind": "cores"})
    script = slurm(make_launch("true", ranks=2), spec, PYXIS)
    (step,) = re.findall(r"exec srun (?:.*\\\n)*.*", script)
    assert step.index("--mpi=pmix") < step.index("--mpi=none") and step.count("--mpi=none") == 1
    assert step.index("--cpu-bind=cores") < step.index("--container-image")
