"""`--dry-run`: as JSON with the field names of `run.json`, all of it, and the script alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from llmbx.cli import run
from llmbx.record.folder import Record


def test_a_preview_as_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    arguments = ["line", "--dry-run", "--format", "json", "--env", "A=b"]
    done = CliRunner().invoke(run.command, arguments, catch_exceptions=False)
    found = json.loads(done.stdout)
    assert found["spec"]["env"] == {"A": "b"} and found["commands"] and found["script"].startswith("#!/bin/bash")
    assert found.keys() - {"folder", "script"} <= set(Record.__struct_fields__)
    assert not (tmp_path / "install").exists()


def test_a_value_with_a_line_end_stays_on_its_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second line must not look like a variable of its own."""
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    arguments = ["line", "--dry-run", "--verbose", "--env", "A=b\n  env       C=d"]
    done = CliRunner().invoke(run.command, arguments, catch_exceptions=False)
    assert "  env       A='b\\n  env       C=d'" in done.stdout.splitlines()


def test_the_script_on_stdout_is_the_one_of_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "job.sh"
    for target in ("-", str(file)):
        done = CliRunner().invoke(run.command, ["line", "--emit-script", target])
        assert done.exit_code == 0, done.output
        if target == "-":
            printed = done.stdout
    assert printed.startswith("#!/bin/bash\n") and printed == file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["job.sh"]
