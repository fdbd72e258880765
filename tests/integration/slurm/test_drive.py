"""The launcher of Slurm does what `llmbx plugins check` asks of a launcher, with a job that has to wait."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any


def test_the_launcher_is_driven(slurm: Any, llmbx: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    env = {"SLURM_CONF": str(slurm.config), "ADDITIONAL_SLURM_PARAMS": "nodelist=n1;exclusive"}
    done = llmbx("plugins", "check", "slurm", "--only", "launcher", "--format", "json", env=env)
    ((outcome,),) = json.loads(done.stdout).values()
    passed = "launcher 'slurm': a job runs and is found again, fails with its exit code, is cancelled, waits"
    assert (outcome["status"], outcome["details"]) == ("ok", [passed]), done.stderr
