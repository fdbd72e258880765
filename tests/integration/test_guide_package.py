"""The packages of the author's guide, made of the page's own text: built, installed beside llmbx, tested and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

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
    for module in folder.glob("src/*/plugin.py"):
        module.with_name("__init__.py").touch()
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


def test_the_command_that_the_guide_shows(tiny: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    environ = {**tiny[1], "HOME": str(tmp_path), "LLMB_INSTALL": str(tmp_path / "install"), "CUDA_VISIBLE_DEVICES": ""}
    (line,) = re.findall(r"^    llmbx (run tiny .*)$", PAGE.read_text(), re.MULTILINE)
    command = [sys.executable, "-c", LLMBX, *line.split(), "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["status"], result["workload"]["gpus"], result["steps_seen"]) == ("completed", 2, 20)
    (seen,) = (tmp_path / "install").glob("workloads/tiny/experiments/*/*/*/seen.json")
    assert json.loads(seen.read_text())
