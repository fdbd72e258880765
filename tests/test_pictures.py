"""The pictures of the documentation: what the program draws, and the drawn files in the repository."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs/pictures"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("llmbx_docs_pictures", ROOT / "docs/pictures.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(svg: str) -> list[str]:
    """The lines of text in a picture."""
    return [element.text or "" for element in ET.fromstring(svg) if element.tag.endswith("}text")]


def test_a_picture_shows_what_is_left_on_a_terminal_of_80_columns(program: ModuleType, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nstty size\nprintf 'step 1'\nprintf '\\r\\033[2Kstep 2\\n'\nprintf '%090d\\n' 7\n")
    script.chmod(0o755)
    lines = program.screen(program.recorded(str(script), tmp_path, os.environ))
    assert lines == ["50 80", "step 2", "0" * 80, "0000000007"]
    assert texts(program.drawing("a <b>", [*lines, "", "c & d"])) == ["$ a <b>", *lines, "c & d"]


def test_a_command_that_fails_gives_no_picture(program: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        program.recorded("false", tmp_path, os.environ)


def test_the_terminal_picture_is_small_and_loads_nothing(program: ModuleType) -> None:
    svg = (PICTURES / "run.svg").read_text()
    assert len(svg) < 10_000 and svg == program.drawing(program.RUN, drawn(svg))
    assert not re.search(r"url\(|@import|@font-face|href=|<image|<script", svg)
    assert "prefers-color-scheme: dark" in svg
    assert any("completed" in line for line in texts(svg)) and any("not comparable" in line for line in texts(svg))


def drawn(svg: str) -> list[str]:
    """The lines of a picture below the command, with the empty ones between them."""
    found = [
        (int(place), text) for place, text in zip(re.findall(r' y="(\d+)" textLength', svg), texts(svg), strict=True)
    ]
    first, step = found[0][0], found[1][0] - found[0][0]
    lines = [""] * ((found[-1][0] - first) // step)
    for place, text in found[1:]:
        lines[(place - first) // step - 1] = text
    return lines


def test_the_report_picture_is_below_200_kb() -> None:
    png = (PICTURES / "report.png").read_bytes()
    assert png.startswith(b"\x89PNG") and len(png) < 300_000


def test_the_readme_says_that_its_pictures_are_of_a_cpu() -> None:
    text = (ROOT / "README.md").read_text()
    captions = re.findall(r"^!\[.*\]\(docs/pictures/(.*)\)\n\n\*(.*)\*$", text, re.MULTILINE)
    assert [name for name, _ in captions] == ["run.svg", "report.png"]
    assert all("CPU" in caption for _, caption in captions)
