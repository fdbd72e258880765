"""What `llmbx explain` says of a recorded run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

Cause = dict[str, Any]


def explain(install: Path, run: str, *options: str) -> dict[str, Any]:
    """Return what llmbx says of a run."""
    command = [str(Path(sys.executable).with_name("llmbx")), "explain", run, *options, "--format", "json"]
    environ = {**os.environ, "LLMB_INSTALL": str(install), "LLMBX_CONFIG": os.devnull}
    environ["LLMBX_PLUGINS"] = str(Path(__file__).with_name("mini"))
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{run}: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return {}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def rank_of(cause: Cause) -> str:
    """Return a rank as text."""
    return "all" if cause.get("rank") is None else str(cause["rank"])
