"""The program that makes the documentation's pictures still makes them."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def labels(svg: str) -> list[str]:
    """The names of the figures that a run prints, without those that depend on the workload or on chance."""
    found = re.findall(r">  ([a-zA-Z][\w/ ]*?)  +[^<]", svg)
    return [name for name in found if not name.startswith(("step ", "stability"))]


@pytest.mark.usefixtures("chromium")
def test_both_pictures_are_made_from_one_run(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "docs/pictures.py", tmp_path, "--run", "llmbx run line --steps 20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    svg = (tmp_path / "run.svg").read_text()
    assert "<title>Output of llmbx run line --steps 20</title>" in svg
    assert set(labels((ROOT / "docs/pictures/run.svg").read_text())) <= {*labels(svg), "TFLOP/s per rank"}
    assert len(labels(svg)) > 4
    width, height = struct.unpack(">II", (tmp_path / "report.png").read_bytes()[16:24])
    assert width == 1000 and 800 < height < 3000
