"""What every command does with arguments that no command can use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmbx.cli.main import main

LONG = "a" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "line", "--output", LONG), ("run", "--from", LONG), ("status", LONG), ("logs", LONG), ("parse", LONG),
        ("report", LONG), ("nsys", LONG), ("nccl", LONG), ("plugins", "check", f"./{LONG}"), ("plugins", "new", LONG),
        ("list", "--plugin", f"./{LONG}"), ("audit", LONG), ("sweep", f"{LONG}.toml"),
    ],
    ids=lambda arguments: " ".join(arguments)[:20],
)  # fmt: skip
def test_a_name_that_is_too_long_is_one_line(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setattr("llmbx.cli.main.own_process", lambda: None)  # the alarm is the tests'
    monkeypatch.setenv("LLMBX_PLUGINS", "")  # which `--plugin` sets
    monkeypatch.setattr("sys.argv", ["llmbx", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert any(LONG[:90] in line for line in capsys.readouterr().err.splitlines())


def test_a_line_break_in_a_quoted_value_is_an_escape(tmp_path: Path) -> None:
    (tmp_path / "llmbx.toml").write_text('default_cluster = "a\\nb"\n[clusters.eos]\n')
    done = subprocess.run(
        [sys.executable, "-m", "llmbx", "show", "grok1"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "LLMBX_CONFIG": str(tmp_path / "llmbx.toml"), "LLMB_INSTALL": str(tmp_path / "install")},
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert r"'a\nb'" in done.stderr
