"""The package that `llmbx plugins new` writes."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from llmbx.errors import UsageError
from llmbx_kit.new import command
from llmbx_kit.template import KINDS, check_name, write

LONGEST = 170
"""Lines of Python in a new framework plugin."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_has_only_its_own_name_and_no_fault_that_a_linter_finds(kind: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["my_lm", f"--{kind}", "--folder", str(tmp_path / "it")])
    assert result.exit_code == 0, result.output
    folder = tmp_path / "it"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "llmbx-my-lm" and project["entry-points"]["llmbx"] == {"my_lm": "llmbx_my_lm.plugin"}
    for path in folder.rglob("*"):
        assert "newplugin" not in path.name.lower()
        assert path.is_dir() or "newplugin" not in path.read_text().lower()
    ruff = [
        Path(sys.executable).with_name("ruff"),
        "check",
        "--isolated",
        "--select",
        "E,F,I,B",
        "--ignore",
        "B905,E501",
    ]
    done = subprocess.run([*ruff, str(folder)], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_framework_takes_few_lines(tmp_path: Path) -> None:
    written = write(tmp_path / "lm", "lm", "framework")
    assert sum(len(path.read_text().splitlines()) for path in written if path.suffix == ".py") <= LONGEST
    names = {str(path.relative_to(tmp_path / "lm")) for path in written}
    assert {"README.md", "pyproject.toml", "tests/train.log", "src/llmbx_lm/entry/train.py"} < names


def test_nothing_is_written_over(tmp_path: Path) -> None:
    write(tmp_path / "lm", "lm", "profiler")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="is not empty: name another folder with --folder"):
        write(tmp_path / "lm", "lm", "framework")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot create .*file/lm: .*file is a file"):
        write(tmp_path / "file/lm", "lm", "framework")
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("name", ["", "My", "a b", "1a", "a-b", "../a", "class", "a__b", "nemo"])
def test_names_that_cannot_be_used(name: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be the name of a plugin|exists already"):
        check_name(name, ("nemo",))
