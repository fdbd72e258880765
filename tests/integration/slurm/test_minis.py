"""The real frameworks across two nodes of a real Slurm: one srun, and ranks that find each other by address."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..conftest import files_of

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Result = Callable[[Path], dict[str, Any]]

TWO_NODES = (
    "--size", "mini", "--gpus", "2", "--gpus-per-node", "1", "--launcher", "slurm", "--steps", "8",
    "--slurm-arg", "nodelist=n1,n2",
)  # fmt: skip
"""Two processes, each the only one of its node. The nodes are named, since a job just ending may hold others."""

PLACE = re.compile(r"(\d+): llmbx: node (\d+) \((\w+)\) has rank (\d+) of (\d+)")


@pytest.fixture
def train(
    llmbx: Llmbx, shared_install: Path, slurm: Any
) -> Callable[..., tuple[subprocess.CompletedProcess[str], Path]]:
    """`train("nemo", "grok1", …)`: a run across two nodes, in the shared install, and its folder."""

    def run(plugin: str, *arguments: str) -> tuple[subprocess.CompletedProcess[str], Path]:
        environment = {"SLURM_CONF": str(slurm.config)}
        done = llmbx("run", "--plugin", plugin, *arguments, *TWO_NODES, install=shared_install, env=environment)
        return done, files_of(done.stdout)

    return run


MEGATRON = {
    r"0: Step Time :": 8,
    r"1: Step Time :": 0,
    r"0: .* iteration +\d+/ +8 \|": 0,
    r"1: .* iteration +\d+/ +8 \|": 8,
}
"""Only the first rank prints `Step Time`, and only the last one the iteration: two worlds of one would print both."""
MAXTEXT = {r"[01]: .*Num_devices: 2, shape": 2, r"[01]: .*completed step: 7,": 2}
"""Every process says how many devices there are in all, and prints every step."""


@pytest.mark.parametrize(
    ("plugin", "arguments", "printed"),
    [("nemo", ("grok1", "--set", "ep=2"), MEGATRON), ("maxtext", ("llama2",), MAXTEXT)],
    ids=["nemo", "maxtext"],
)
def test_a_mini_trains_across_two_nodes(
    train: Callable[..., Any], read_result: Result, plugin: str, arguments: tuple[str, ...], printed: dict[str, int]
) -> None:
    done, folder = train(plugin, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    result = read_result(folder)
    assert (result["status"], result["data_valid"], result["steps_seen"]) == ("completed", True, 8)
    assert (result["launcher"], result["workload"]["gpus"]) == ("slurm", 2) and result["job_id"].isdigit()
    assert result["loss"]["last"] < result["loss"]["first"]

    log = (folder / f"log-{folder.name}.out").read_text()
    places = sorted(PLACE.findall(log))
    assert places == [("0", "0", "n1", "0", "2"), ("1", "1", "n2", "1", "2")]
    counted = {pattern: len(re.findall(f"^{pattern}", log, re.MULTILINE)) for pattern in printed}
    assert counted == printed, "the framework itself knows both processes"
    seen = json.loads((folder / "seen.json").read_text())["environment"]
    assert seen["SLURMD_NODENAME"] == "n1" and seen["LLMBX_MASTER_ADDR"] == "127.0.0.1"

    script = (folder / "run.sh").read_text()
    assert script.count("exec srun ") == 1 and "--nodes=2 --ntasks=2 --ntasks-per-node=1" in script
    command = json.loads((folder / "run.json").read_text())["commands"]["train"]
    assert command[1] == "code/train.py", "no launcher of its own in front of the program"
