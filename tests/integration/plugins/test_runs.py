"""Runs of a faulty framework plugin: reported in one line, stopped and finalized; other runs are not affected."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ...patience import wait_until
from .conftest import Llmbx, Package

TOY = Path(__file__).parents[2] / "fixtures/toy/src"

CODE = """
from llmbx.api import LogFormat, hookimpl
from llmbx_toy import plugin as toy
from llmbx_toy.plugin import build_command, check_spec, compute_flops, parse_log, prepare_image, register_workloads

class Broken(toy.ToyParser):
    def feed(self, line):
        raise KeyError("no step")
"""

Run = Callable[..., Any]


@pytest.fixture
def run(llmbx: Llmbx, site: Path) -> Run:
    """`run("run", "line", ...)`: the command, with this machine's Python as the framework's environment."""
    environ = {"PYTHONPATH": f"{site}:{TOY}", "LLMBX_PYTHON": sys.executable, "LLMBX_STOP_GRACE_S": "1"}
    return lambda *arguments: llmbx(*arguments, **environ)


def result(install: Path) -> dict[str, Any]:
    (file,) = install.glob("workloads/**/result.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_without_a_working_formula_only_the_mfu_is_missing(package: Package, run: Run, tmp_path: Path) -> None:
    package("odd", CODE + "\n@hookimpl\ndef compute_flops(spec):\n    return 1 / 0\n")
    done = run("run", "--plugin", "odd", "line")
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    found = result(tmp_path / "install")
    assert found["status"] == "completed" and found["step_time_s"]["mean"] and found["mfu"]["value"] is None
    assert any("plugin 'odd': compute_flops failed: ZeroDivisionError" in line for line in found["warnings"])


def test_a_run_whose_log_parser_fails_is_stopped_and_finalized(package: Package, run: Run, tmp_path: Path) -> None:
    package("odd", CODE + "\n@hookimpl\ndef parse_log(spec):\n    return [LogFormat('odd', 'Odd', len, Broken)]\n")
    done = run("run", "--plugin", "odd", "line", "--steps", "100000")
    says = "plugin 'odd': feed of its log parser failed: KeyError: 'no step'"
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
    found = result(tmp_path / "install")
    assert found["status"] == "failed" and not found["data_valid"] and says in found["cause"]
    folder = next((tmp_path / "install").glob("workloads/**/result.json")).parent
    assert not [pid for pid in Path("/proc").glob("[0-9]*") if _cwd(pid) == str(folder)]


def _cwd(process: Path) -> str | None:
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return None


def test_a_run_that_cannot_be_read_does_not_hide_the_others(package: Package, run: Run, tmp_path: Path) -> None:
    code = package("odd", CODE)
    assert run("run", "--plugin", "odd", "line").returncode == 0
    done = run("run", "--plugin", "odd", "line", "--detach")
    while run("status", done.stdout.strip()).stdout.count("running"):
        time.sleep(0.2)
    for file in (tmp_path / "install").glob("workloads/**/result.json"):
        file.unlink() if done.stdout.strip() in str(file) else None
    code.write_text(CODE + "\n@hookimpl\ndef parse_log(spec):\n    return [LogFormat('odd', 'Odd', len, Broken)]\n")
    listed = run("jobs", "--format", "json")
    assert listed.returncode == 0 and "Traceback" not in listed.stderr, listed.stderr
    assert {row["status"] for row in json.loads(listed.stdout)} == {"completed", "unknown"}
    code.write_text(CODE)
    assert {row["status"] for row in json.loads(run("jobs", "--format", "json").stdout)} == {"completed"}


def test_a_start_that_fails_leaves_no_process(package: Package, run: Run, tmp_path: Path) -> None:
    package(
        "late",
        """
        from llmbx import hookimpl
        from llmbx.launchers.local import LocalLauncher

        class Late(LocalLauncher):
            name = "late"

            def submit(self, script, spec, run_dir):
                super().submit(script, spec, run_dir)
                raise ConnectionError("gone")

        @hookimpl
        def register_launchers():
            return [Late()]
        """,
    )
    package("odd", CODE)
    done = run("run", "--plugin", "odd", "line", "--steps", "100000", "--launcher", "late")
    says = "plugin 'late': submit of launcher 'late' failed: ConnectionError: gone"
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
    assert says in result(tmp_path / "install")["cause"]
    folder = next((tmp_path / "install").glob("workloads/**/result.json")).parent
    wait_until(lambda: not [pid for pid in Path("/proc").glob("[0-9]*") if _cwd(pid) == str(folder)])
