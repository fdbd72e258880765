"""The program that makes the documentation's pictures still makes them."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.usefixtures("chromium")
def test_all_pictures_are_made_from_a_run_and_its_repeat(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "docs/pictures.py", tmp_path, "--run", "llmbx run line --steps 20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    svg = (tmp_path / "run.svg").read_text()
    assert "<title>Output of llmbx run line --steps 20</title>" in svg
    assert "completed" in svg and "step time" in svg
    assert "this data shows differences" in (tmp_path / "compare.svg").read_text()
    for name in ("report.png", "atlas.png"):
        width, height = struct.unpack(">II", (tmp_path / name).read_bytes()[16:24])
        assert width == 1000 and 500 < height < 3000
