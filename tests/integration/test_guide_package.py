"""The package of the author's guide, made of the page's own text: built, installed beside llmbx, tested and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/plugins.md"
FILE = re.compile(r"^`([\w./-]+\.\w+)`[^\n]*\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LLMBX = "from llmbx.cli.main import main; main()"


def written(folder: Path, heading: str) -> Path:
    """The files that the section of this heading shows, in a folder of their own."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    for name, content in FILE.findall(section):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        if path.parent.parent.name == "src":
            path.with_name("__init__.py").touch()
    return folder


def installed(source: Path, site: Path) -> dict[str, str]:
    """The package, built and installed into `site`; returns an environment in which it is found."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--no-build-isolation", "--target", str(site), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LLMB", "PYTEST_"))}
    return {**kept, "PYTHONPATH": str(site)}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The guide's package and the environment that has it."""
    folder = tmp_path_factory.mktemp("guide")
    source = written(folder / "tiny", "A whole package")
    return source, installed(source, folder / "site")


def test_its_own_tests_pass(tiny: tuple[Path, dict[str, str]]) -> None:
    source, environ = tiny
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(source), "tests"]
    done = subprocess.run(command, cwd=source, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def shown_command(place: Path, environ: dict[str, str], start: str, *more: str) -> tuple[int, dict[str, Any], Path]:
    """Exit code, result and folder of the first command of the guide that begins so."""
    environ = {**environ, "HOME": str(place), "LLMB_INSTALL": str(place / "install"), "CUDA_VISIBLE_DEVICES": ""}
    line = re.findall(rf"(?:^    |`)llmbx ({re.escape(start)}[^`\n]*)", PAGE.read_text(), re.MULTILINE)[0]
    command = [sys.executable, "-c", LLMBX, *line.split(), *more, "--format", "json"]
    done = subprocess.run(command, cwd=place, env=environ, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    (folder,) = (place / "install").glob("workloads/tiny/experiments/*/*/*/")
    return done.returncode, json.loads(done.stdout), folder


def test_the_command_that_the_guide_shows(tiny: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    code, result, folder = shown_command(tmp_path, tiny[1], "run tiny --gpus 2")
    assert (code, result["status"], result["workload"]["gpus"], result["steps_seen"]) == (0, "completed", 2, 20)
    assert json.loads((folder / "seen.json").read_text())
