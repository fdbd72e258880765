"""`run --verify-compute` with the real frameworks, and a plain PyTorch program that repeats its last step."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from llmbx_nemo.launch import request

from .conftest import ROOT, Llmbx, clean_environment, files_of, prepared
from .containers.tools import free_port
from .test_nemo_entry import resolved

PROGRAM = """
import os, sys, torch
from pathlib import Path
from torch import distributed, nn
from llmbx.entry import rank
from llmbx_verdict.entry import verify
this, flipped = rank.this(), sys.argv[1] == "flip"
os.environ.update(MASTER_ADDR=this.address, MASTER_PORT=str(this.port))
distributed.init_process_group("gloo", rank=this.number, world_size=this.world)
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5), nn.BatchNorm1d(64), nn.Linear(64, 1))
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.randn(16, 8, generator=torch.Generator().manual_seed(this.number))
twice = verify.of_torch({"plugin_settings": {"any": {"verify_compute": True}}}, Path(), model)
for step in range(3):
    for number in twice.passes(step, step == 2):
        if number and flipped and this.number == 1:
            net[0].weight.data.view(torch.int32)[0, 0] ^= 1 << 20
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        twice.add("loss", loss)
    optimizer.step()
"""


@pytest.fixture(scope="session")
def torch_python(shared_install: Path) -> str:
    """The Python of an environment with PyTorch."""
    return prepared(request(resolved("llama3.1")), shared_install).python


@pytest.mark.parametrize("flipped", [False, True])
def test_a_plain_program_repeats_its_last_step_in_three_lines(torch_python: str, tmp_path: Path, flipped: bool) -> None:
    """Dropout and the statistics of a batch norm are set back; a flipped bit of a weight is seen in its rank only."""
    path = f"{ROOT / 'core'}:{ROOT / 'plugins/verdict'}"
    env = {**clean_environment(tmp_path), "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    env |= {"LLMBX_WORLD_SIZE": "2", "LLMBX_MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo"}
    argv = [torch_python, "-c", PROGRAM, "flip" if flipped else "none"]
    ranks = [subprocess.Popen(argv, cwd=tmp_path, env={**env, "LLMBX_RANK": str(number)}) for number in range(2)]
    assert [rank.wait() for rank in ranks] == [0, 0]
    first, second = (json.loads((tmp_path / f"verify/rank-{number}.json").read_text()) for number in range(2))
    assert first["compared"] == {"loss": 1, "gradient": 1, "weight": 6}
    assert first["differ"] == {"loss": 0, "gradient": 0, "weight": 0}
    assert second["differ"] == ({"loss": 1, "gradient": 1, "weight": 1} if flipped else first["differ"])
    assert (first["weights"] == second["weights"]) is not flipped


@pytest.mark.parametrize(
    "arguments",
    [
        ("nemo", "grok1", "--size", "mini", "--gpus", "2", "--set", "ep=2"),
        ("nemo", "llama4", "--recipe", "nemo2-mini"),
        ("maxtext", "llama2"),
    ],
    ids=lambda arguments: "-".join(arguments),
)
def test_a_clean_training_has_no_finding(arguments: tuple[str, ...], llmbx: Llmbx, shared_install: Path) -> None:
    done = llmbx("run", *arguments, "--steps", "4", "--verify-compute", install=shared_install)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = files_of(done.stdout)
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    said = [each["text"] for each in result["checks"] if each["check"] == "verify-compute"]
    if arguments[0] == "maxtext":
        assert "inside its compiled step" in said[0]
        return
    assert said == []
    records = [json.loads(file.read_text()) for file in (folder / "verify").iterdir()]
    assert all(min(record["compared"].values()) > 0 for record in records)
