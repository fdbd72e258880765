"""`--dry-run` as JSON: the field names are those of `run.json`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from llmbx.cli import profile, run
from llmbx.record.folder import Record


@pytest.mark.parametrize("command", [run.command, profile.command])
def test_a_preview_as_json(command: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    # Forced: profile finds no nsys on most machines.
    arguments = ["line", "--dry-run", "--format", "json", "--env", "A=b", "--force"]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)  # type: ignore[arg-type]
    found = json.loads(done.stdout)
    assert found["spec"]["env"] == {"A": "b"} and found["commands"] and found["script"].startswith("#!/bin/bash")
    assert found.keys() - {"folder", "script"} <= set(Record.__struct_fields__)
    assert not (tmp_path / "install").exists()


def test_a_value_with_a_line_end_stays_on_its_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second line must not look like a variable of its own."""
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    done = CliRunner().invoke(
        run.command, ["line", "--dry-run", "--env", "A=b\n  env       C=d"], catch_exceptions=False
    )
    assert "  env       A='b\\n  env       C=d'" in done.stdout.splitlines()
