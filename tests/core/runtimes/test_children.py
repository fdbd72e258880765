"""Processes that a killed llmbx left running."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil

from llmbx.runtimes.children import end_leftovers

SLEEP = ["sh", "-c", "read line", "sh"]


def test_only_processes_with_the_folder_and_the_word_are_ended(tmp_path: Path) -> None:
    names = {"mine": [tmp_path / "file", "pip"], "word": [tmp_path / "file", "pipx"], "folder": ["/elsewhere", "pip"]}
    started = {name: subprocess.Popen([*SLEEP, *map(str, argv)], stdin=subprocess.PIPE) for name, argv in names.items()}
    end_leftovers(tmp_path, "pip")
    assert [psutil.pid_exists(process.pid) for process in started.values()] == [False, True, True]
    end_leftovers(tmp_path)
    assert [psutil.pid_exists(process.pid) for process in started.values()] == [False, False, True]
    started["folder"].communicate(b"\n")
    assert started["folder"].returncode == 0
