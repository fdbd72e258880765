"""`llmbx plugins check` drives launchers and runtimes: those of llmbx for this machine, and two of third parties.

The launcher of Slurm is driven in slurm/test_drive.py, the container runtimes in containers/test_drive.py.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from . import apt

OTHERS = Path(__file__).parents[1] / "fixtures/others"
RUNS = "a job runs and is found again, fails with its exit code, is cancelled"
STARTS = "a program runs with its variables and mounts, fails with its exit code, is cancelled"
Check = Callable[..., dict[str, tuple[str, list[str]]]]


@pytest.fixture
def check(llmbx: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> Check:
    """`check("venv", "runtime")`: status and details of these checks; task-spooler has a queue of the test's own."""

    def run(what: str, only: str, **env: str) -> dict[str, tuple[str, list[str]]]:
        done = llmbx("plugins", "check", what, "--only", only, "--format", "json", env=env)
        (outcomes,) = json.loads(done.stdout).values()
        return {each["check"]: (each["status"], each["details"]) for each in outcomes}

    return run


@pytest.fixture
def tsp(tmp_path: Path) -> dict[str, str]:
    """The variables of a user of task-spooler."""
    return {"TS_SOCKET": str(tmp_path / "queue"), "TMPDIR": str(tmp_path)}


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    """Task-spooler and bubblewrap."""
    if why := apt.install(("task-spooler", "bubblewrap")):
        pytest.fail(why)


def other(folder: Path, name: str, *change: str) -> str:
    """A plugin of a third party, with a change."""
    text = (OTHERS / name).read_text()
    if change:
        assert change[0] in text
        text = text.replace(*change)
    (folder / name).write_text(text)
    return str(folder / name)


def test_the_launcher_and_the_runtimes_of_this_machine(check: Check) -> None:
    assert check("local", "launcher,runtime") == {
        "launcher": ("ok", [f"launcher 'local': {RUNS}"]), "runtime": ("ok", [f"runtime 'host': {STARTS}"]),
    }  # fmt: skip
    assert check("venv", "runtime") == {"runtime": ("ok", [f"runtime 'venv': {STARTS}"])}


def test_a_queue(check: Check, tsp: dict[str, str], tmp_path: Path) -> None:
    try:
        found = check(other(tmp_path, "tsp.py"), "launcher", **tsp)
        assert found == {"launcher": ("ok", [f"launcher 'tsp': {RUNS}, waits"])}
        forgetful = other(tmp_path, "tsp.py", 'JobStatus(state="ended", verdict="cancelled"', 'JobStatus(state="lost"')
        _, (problem,) = check(forgetful, "launcher", **tsp)["launcher"]
        assert "'lost' (removed from the queue) of a job that was cancelled while it waited" in problem
    finally:
        subprocess.run(["tsp", "-K"], env=tsp | {"PATH": "/usr/bin:/bin"}, check=True)


def test_a_sandbox(check: Check, tmp_path: Path) -> None:
    found = check(other(tmp_path, "bubblewrap.py"), "runtime")
    assert found == {"runtime": ("ok", [f"runtime 'bubblewrap': {STARTS}"])}
    narrow = other(tmp_path, "bubblewrap.py", "mounts(spec, launch,", "mounts(spec, launch.replace(mounts=()),")
    status, problems = check(narrow, "runtime")["runtime"]
    assert status == "failed" and "a folder of launch.mounts cannot be read at its path" in problems[0]
