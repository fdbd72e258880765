"""Core with a framework, the environments and Slurm, and no other plugin: a run goes from its start to its result."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx_environments.venv.resolution import find_resolver

from ..conftest import clean_environment
from ..wheels import build_wheel, python_of

ROOT = Path(__file__).parents[3]
KEPT = {"llmbx", "llmbx_environments", "llmbx_nemo", "llmbx_slurm"}
MINI = ("run", "--plugin", "nemo", "grok1", "--size", "mini", "--gpus", "1", "--launcher", "slurm")

Core = Callable[..., subprocess.CompletedProcess[str]]


def keep_only(site: Path, packages: set[str]) -> None:
    """Remove the other packages of the wheel that is installed in `site`, and their entry points."""
    (listed,) = site.glob("llmbx-*.dist-info/entry_points.txt")
    points = configparser.ConfigParser()
    points.optionxform = str  # type: ignore[assignment,method-assign]
    points.read(listed)
    for group in points.sections():
        for name, value in points.items(group):
            if value.partition(":")[0].partition(".")[0] not in packages:
                points.remove_option(group, name)
    with listed.open("w") as file:
        points.write(file)
    for folder in site.glob("llmbx_*"):
        if folder.name not in packages:
            shutil.rmtree(folder)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory, slurm: Any, shared_install: Path) -> Core:
    """`core("status", "last")`: the command of such an installation, as a user types it."""
    folder = tmp_path_factory.mktemp("core")
    uv, python = find_resolver(os.environ), python_of("3.11")
    assert python is not None
    subprocess.run([uv.path, "venv", "-q", "--python", python, folder / "venv"], env=uv.env, check=True)
    wheel = build_wheel(ROOT, folder)
    install = [uv.path, "pip", "install", "-q", "--python", folder / "venv/bin/python", wheel]
    subprocess.run(install, env=uv.env, check=True)
    (site,) = (folder / "venv/lib").glob("python*/site-packages")
    keep_only(site, KEPT)
    root = folder / "install"
    root.mkdir()
    for built in ("venvs", "cache"):
        (root / built).symlink_to((shared_install / built).resolve())
    environment = clean_environment(root, SLURM_CONF=str(slurm.config))

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [folder / "venv/bin/llmbx", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return call


def test_a_run_is_made_followed_and_recorded(core: Core) -> None:
    done = core(*MINI, "--steps", "4", "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["status"], result["data_valid"], result["steps_seen"]) == ("completed", True, 4)
    assert result["step_time_s"]["mean"] > 0 and result["stability"]["verdict"] is None
    for name in ("last", result["run_id"], result["run_id"][:-2], result["job_id"]):
        status = core("status", name, "--format", "json")
        assert json.loads(status.stdout)["run_id"] == result["run_id"], status.stderr
    logs = core("logs", "last")
    assert logs.stdout.count("Step Time :") == 4, logs.stderr


def test_a_run_is_cancelled(core: Core) -> None:
    begun = core(*MINI, "--steps", "100000", "--detach")
    assert begun.returncode == 0, begun.stderr
    name = begun.stdout.strip()
    cancelled = core("cancel", name)
    assert cancelled.returncode == 0, cancelled.stderr
    assert json.loads(core("status", name, "--format", "json").stdout)["status"] == "cancelled"


def test_the_verbs_of_other_plugins_are_not_listed(core: Core) -> None:
    listed = core("--help").stdout
    assert "\n  run " in listed and "\n  env " in listed
    assert not [verb for verb in ("compare", "export", "sweep", "nsys", "explain") if f"\n  {verb} " in listed]
