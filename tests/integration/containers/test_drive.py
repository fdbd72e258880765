"""The container runtimes do what `llmbx plugins check` asks of a runtime, with a real image."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from . import tools


def test_the_runtimes_are_driven(
    llmbx: Callable[..., subprocess.CompletedProcess[str]], daemons: tools.Daemons, images: dict[str, str],
    tool_env: dict[str, str], tmp_path: Path,
) -> None:  # fmt: skip
    arguments = ("--only", "runtime", "--format", "json", "--image", f"{daemons.registry}#ci/tiny:1")
    done = llmbx("plugins", "check", "containers", *arguments, env=tool_env, cwd=tmp_path)
    ((outcome,),) = json.loads(done.stdout).values()
    passed = "a program runs with its variables and mounts, fails with its exit code, is cancelled"
    for tool in tools.TOOLS:
        assert f"runtime '{tool}': {passed}, a missing image is refused" in outcome["details"], outcome["details"]
    absent = {"docker", "apptainer", "enroot", "pyxis"} - {*tools.TOOLS}
    assert all(f"not checked: runtime '{tool}': " in str(outcome["details"]) for tool in absent)
