"""The packages in examples/: checked and run as their users would, without installing them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
Llmbx = Callable[..., subprocess.CompletedProcess[str]]


def test_a_plain_torch_trainer_conforms_and_trains_on_two_ranks(llmbx: Llmbx, shared_install: Path) -> None:
    folder = str(EXAMPLES / "torch_lm")
    checked = llmbx("plugins", "check", folder, "--format", "json")
    (outcomes,) = json.loads(checked.stdout).values()
    assert {each["check"]: each["status"] for each in outcomes} == {
        "hooks": "ok", "import": "ok", "catalog": "ok", "log": "ok", "profiler": "not applicable",
        "tools": "not applicable", "mini": "ok", "flops": "ok", "faults": "ok",
    }, checked.stdout  # fmt: skip
    arguments = ("run", "torch_lm", "--plugin", folder, "--gpus", "2", "--steps", "12", "--format", "json")
    done = llmbx(*arguments, install=shared_install)
    result = json.loads(done.stdout)
    assert (done.returncode, result["data_valid"]) == (0, True), done.stderr
    assert [c for c in result["checks"] if c["outcome"] != "not possible"] == []
    assert result["loss"]["last"] < result["loss"]["first"]
