"""Images that llmbx builds: a real framework's mini trains inside one, in Docker and in Apptainer, and is profiled."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..nsys.conftest import SUITES, unpacked
from . import tools

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Result = Callable[[Path], dict[str, Any]]


@pytest.fixture(scope="module")
def debian(daemons: tools.Daemons, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Debian with Python 3.11, in the registry."""
    root = tools.make_debian(tmp_path_factory.mktemp("debian") / "root", "bookworm")
    daemons.push(root, "ci/debian:1")
    shutil.rmtree(root, ignore_errors=True)
    return f"{daemons.registry}/ci/debian:1"


@pytest.fixture(scope="module")
def nsys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nsys of this machine; no image has one."""
    return unpacked(SUITES[1], tmp_path_factory)


@pytest.mark.parametrize("tool", ["docker", "apptainer"])
def test_the_mini_trains_inside_the_image_that_was_built_for_it(
    tool: str, llmbx: Llmbx, tool_env: dict[str, str], debian: str, daemons: tools.Daemons, install: Path,
    shared_install: Path, only_run: Callable[..., Path], read_result: Result, nsys: Path,
) -> None:  # fmt: skip
    install.mkdir()
    (shared_install / "venvs").mkdir(exist_ok=True)
    (install / "venvs").symlink_to(shared_install / "venvs")
    try:
        missing = llmbx("run", "--plugin", "nemo", "grok1", "--runtime", tool, env=tool_env)
        assert missing.returncode == 4 and "llmbx image build" in missing.stderr.splitlines()[-1]
        shutil.rmtree(only_run().parents[2])
        built = llmbx("image", "build", "grok1", "--runtime", tool, "--base", debian, env=tool_env, timeout=900)
        assert built.returncode == 0, built.stderr
        done = llmbx("run", "--plugin", "nemo", "grok1", "--runtime", tool, "--steps", "12", env=tool_env)
        assert done.returncode == 0, done.stdout + done.stderr
        result = read_result(only_run())
        assert (result["status"], result["runtime"], result["steps_seen"]) == ("completed", tool, 12)
        assert result["loss"]["last"] < result["loss"]["first"]
        assert result["image"]["digest"].startswith("sha256:")
        assert {"python", "torch", "megatron-bridge"} <= set(result["versions"])
        listed = json.loads(llmbx("image", "verify", "--format", "json", env=tool_env).stdout)
        assert [row["state"] for row in listed] == ["ok"]
        shutil.rmtree(only_run().parents[2])
        profile = ("profile", "--plugin", "nemo", "grok1", "--runtime", tool, "--steps", "5-8", "--max-steps", "12")
        done = llmbx(*profile, env={**tool_env, "LLMBX_NSYS": str(nsys)})
        assert done.returncode == 0, done.stdout + done.stderr
        assert_profiled(only_run(), read_result)
    finally:
        shutil.rmtree(install / "images", ignore_errors=True)
        for name in daemons.docker("images", "--quiet", "--filter", "label=org.llmbx.lock").stdout.split():
            daemons.docker("image", "rm", "--force", name)


def assert_profiled(folder: Path, read_result: Result) -> None:
    """The lent nsys recorded the asked steps and no others, and its report was finished outside."""
    result = read_result(folder)
    assert (result["status"], result["profiled"], result["steps_seen"]) == ("completed", True, 12)
    assert len(list((folder / "nsys_profile").glob("*.nsys-rep"))) == 1
    analysis = json.loads((folder / "nsys_profile/analysis.json").read_text())
    assert [step["step"] for step in analysis["steps"]] == [5, 6, 7]
