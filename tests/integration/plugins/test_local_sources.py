"""Plugins that are not installed: `--plugin PATH`, LLMBX_PLUGINS, `llmbx plugins enable`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.plugins.local_sources import VARIABLE, from_arguments
from llmbx_kit.template import write

MAIN = "from llmbx.cli.main import main; main()"
FILE = """
from llmbx.api import Finding, Profiler, hookimpl

@hookimpl
def register_profiler():
    return Profiler(disturbs="nothing")

@hookimpl
def wrap_command(spec, launch):
    return launch
"""
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def llmbx(tmp_path: Path) -> Command:
    """`llmbx("list")` in a folder with the plugins `lm` (a project) and `watch.py` (a file)."""
    write(tmp_path / "lm", "lm", "framework")
    (tmp_path / "watch.py").write_text(FILE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LLMB", "XDG_"))}
    home = {"HOME": str(tmp_path / "home"), "LLMB_INSTALL": str(tmp_path / "install")}

    def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", MAIN, *arguments],
            env={**kept, **home, **env}, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def names(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return {row["name"]: row["status"] for row in json.loads(done.stdout)}


def test_a_project_folder_is_used_by_one_command(llmbx: Command) -> None:
    shown = json.loads(llmbx("show", "lm", "--plugin", "./lm", "--format", "json").stdout)
    assert (shown["plugin"], shown["workload"], shown["settings"]) == ("lm", "lm", {"lr": 0.5})
    assert [row["workload"] for row in json.loads(llmbx("list", "--plugin=lm/", "--format", "json").stdout)] == ["lm"]
    again = llmbx("show", "lm")
    assert again.returncode == 2 and "no workload named 'lm'" in again.stderr


def test_a_file_is_a_plugin_too(llmbx: Command) -> None:
    done = llmbx("run", "line", "--plugin", "watch.py", "--with", "watch", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert llmbx("run", "line", "--with", "watch", "--dry-run").returncode == 2


def test_enabled_plugins_are_in_every_command_until_they_are_disabled(llmbx: Command, tmp_path: Path) -> None:
    assert "enabled lm" in llmbx("plugins", "enable", "lm").stdout
    assert "enabled watch" in llmbx("plugins", "enable", str(tmp_path / "watch.py")).stdout
    assert llmbx("plugins", "enable", f"../{tmp_path.name}/lm").returncode == 0
    found = names(llmbx("plugins", "--format", "json"))
    assert (found["lm"], found["watch"], found["nemo"]) == ("ok", "ok", "ok")
    (tmp_path / "watch.py").write_text("1 / 0")
    broken = llmbx("plugins", "--format", "json")
    assert (
        names(broken)["watch"]
        == "broken: its import failed: ZeroDivisionError: division by zero (LLMBX_DEBUG=1 shows the traceback)"
    )
    (tmp_path / "watch.py").unlink()
    assert "no such file or folder" in names(llmbx("plugins", "--format", "json"))["watch"]
    assert llmbx("list").returncode == 0, "a plugin that is gone does not stop other commands"
    for path in ("watch.py", "lm"):
        assert llmbx("plugins", "disable", path).returncode == 0
    assert {"lm", "watch"}.isdisjoint(names(llmbx("plugins", "--format", "json")))


def test_the_name_of_an_installed_plugin_stays_its_own(llmbx: Command, tmp_path: Path) -> None:
    (tmp_path / "nemo.py").write_text(FILE)
    found = json.loads(llmbx("plugins", "--format", "json", **{VARIABLE: str(tmp_path / "nemo.py")}).stdout)
    assert [row["status"] for row in found if row["name"] == "nemo"] == [
        "ok", "broken: the name 'nemo' is taken by llmbx " + next(r["version"] for r in found if r["name"] == "nsys"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("./none", "no such file or folder"),
        ("./home", "no pyproject.toml in this folder"),
        ("./empty", "expected a table [project.entry-points.llmbx]"),
        ("./notes.txt", "expected a Python file or a project folder"),
        ("./faulty.py", "it implements an unknown hook 'wrap_comand' (did you mean 'wrap_command'?)"),
    ],
)
def test_a_path_without_a_plugin_is_named(llmbx: Command, tmp_path: Path, path: str, says: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "notes.txt").touch()
    (tmp_path / "faulty.py").write_text(FILE.replace("wrap_command", "wrap_comand"))
    done = llmbx("run", "lm", "--plugin", path)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def test_paths_are_read_before_the_options_are() -> None:
    here = str(Path("x").absolute())
    assert from_arguments(["run", "a", "--plugin", "nemo"], {}) is None
    assert from_arguments(["run", "--plugin", "./x", "--plugin=./x"], {}) == here
    assert from_arguments(["run", "--plugin=./x"], {VARIABLE: "/y"}) == f"{here}{os.pathsep}/y"
    assert from_arguments(["run", "--plugin"], {}) is None and from_arguments([], {}) is None
