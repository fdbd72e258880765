"""`llmbx plugins check` with a plugin that conforms, and with each fault that it looks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx_kit.template import write

MAIN = "from llmbx.cli.main import main; main()"
Check = Callable[..., dict[str, dict[str, object]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A new framework plugin."""
    write(tmp_path / "lm", "lm", "framework")
    return tmp_path / "lm"


@pytest.fixture
def check(folder: Path, tmp_path: Path) -> Check:
    """`check("import", ("import re", "import re, slow"))`: the outcomes by check, after these changes of plugin.py."""

    def run(only: str, *changes: tuple[str, str], code: int = 1) -> dict[str, dict[str, object]]:
        file = folder / "src/llmbx_lm/plugin.py"
        for old, new in changes:
            assert old in file.read_text()
            file.write_text(file.read_text().replace(old, new, 1))
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LLMB")}
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "plugins", "check", str(folder), "--only", only, "--format", "json"],
            env={**environ, "LLMB_INSTALL": str(tmp_path / "install"), "PYTHONPATH": str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return {each["check"]: each for each in json.loads(done.stdout)["lm"]}

    return run


QUICK = "hooks,import,catalog,log,profiler,launcher,runtime,faults"


def test_a_new_plugin_conforms(check: Check) -> None:
    found = check(QUICK, code=0)
    assert {name: one["status"] for name, one in found.items()} == {
        "hooks": "ok", "import": "ok", "catalog": "ok", "log": "ok", "profiler": "not applicable",
        "launcher": "not applicable", "runtime": "not applicable", "faults": "ok",
    }  # fmt: skip


def test_a_hook_without_its_mark_and_one_that_does_not_exist(check: Check) -> None:
    found = check("hooks", ("@hookimpl\ndef compute_flops", "def compute_flops"))
    assert found["hooks"]["details"] == ["compute_flops has no @hookimpl: it is never called"]
    found = check("hooks,log", ("def parse_log", "def parse_logs"))
    assert "it implements an unknown hook 'parse_logs'" in str(found["hooks"]["details"])
    assert found["log"]["status"] == "not checked"


def test_another_package_that_takes_long_to_import(check: Check, tmp_path: Path) -> None:
    slow = "import time\nend = time.process_time() + 0.1\nwhile time.process_time() < end:\n    pass\n"
    (tmp_path / "slowpackage.py").write_text(slow)
    found = check("import", ("import re\n", "import re\n\nimport slowpackage\n"))
    heavy, total = found["import"]["details"]  # type: ignore[misc]
    assert "it imports slowpackage, which takes" in str(heavy) and "expected at most 50 ms" in str(total)


def test_a_parser_that_fails_or_sees_nothing(check: Check) -> None:
    found = check("log", ("number=int(number)", "number=int(number, 0) + None"))
    assert "feed of its log parser failed: TypeError" in str(found["log"]["details"])
    found = check(
        "log",
        ("number=int(number, 0) + None", "number=int(number)"),
        ("newplugin: step".replace("newplugin", "lm"), "x: step"),
    )
    assert "the parser finds no step in the given log" in str(found["log"]["details"])


def test_a_catalog_whose_rows_cannot_run(check: Check) -> None:
    found = check("catalog", ("argv=(image.python,", 'argv=("torchrun",'))
    assert "phase 'train' starts with torchrun" in str(found["catalog"]["details"])


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "pyproject.toml").write_text('[project.entry-points.llmbx]\nnemo = "mine"\n')
    for arguments, says in (
        (["check", str(tmp_path / "none")], "no such file or folder"),
        (["check", "nemoo"], "no plugin named 'nemoo' (did you mean 'nemo'?)"),
        (["check", "nemo", "--only", "logs"], "no check named 'logs' (did you mean 'log'?)"),
        (["check", "nemo", "--log", str(tmp_path / "none.log")], "cannot be read: No such file"),
        (["check", str(tmp_path)], "no pyproject.toml in this folder"),
        (["check", str(own)], "its plugin has the name 'nemo' of an installed one (llmbx)"),
        (["new", "nemo"], "a plugin named 'nemo' exists already"),
        (["enable", str(tmp_path / "none.py")], "no such file or folder"),
        (["disable", "none.py"], "none.py is not enabled"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "plugins", *arguments], env={**os.environ, "HOME": str(tmp_path)},
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, done.stderr
