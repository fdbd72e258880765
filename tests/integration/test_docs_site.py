"""The documentation as a site: every link of every page leads somewhere, and each version keeps its own pages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEST = f"TEST={os.environ.get('LLMBX_TEST_ROOT', ROOT / '.test')}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of its own with the documentation and what builds it."""
    for name in ("docs", "core/llmbx/__init__.py", "Makefile", "mkdocs.yml"):
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    call(tmp_path, "git", "init", "--quiet", "--initial-branch=main")
    call(tmp_path, "git", "add", ".")
    call(tmp_path, "git", "commit", "--quiet", "-m", "docs")
    return tmp_path


def call(folder: Path, *command: str) -> str:
    who = {f"GIT_{role}_{what}": "docs@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **who}, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_version_keeps_its_pages(checkout: Path) -> None:
    call(checkout, "make", "docs-release", TEST)
    version = checkout / "core/llmbx/__init__.py"
    version.write_text(version.read_text().replace('__version__ = "', '__version__ = "9'))
    with (checkout / "docs/guide.md").open("a") as guide:
        guide.write("\nOf the newer version.\n")
    plugins = (checkout / "docs/plugins.md").read_text()
    (checkout / "docs/plugins.md").write_text(f"{plugins}\n[a page that does not exist](gone.md)\n")
    with pytest.raises(AssertionError, match=r"gone\.md"):
        call(checkout, "make", "docs-release", TEST)
    (checkout / "docs/plugins.md").write_text(plugins)
    call(checkout, "make", "docs-release", TEST)
    versions = json.loads(call(checkout, "git", "show", "gh-pages:versions.json"))
    new, old = [entry["version"] for entry in versions]
    assert new == f"9{old}"
    assert versions[0]["aliases"] == ["latest"]
    tutorial = call(checkout, "git", "show", f"gh-pages:{new}/tutorials/first-result/index.html")
    assert '<span class="gp">' in tutorial and "extra.css" in tutorial, "the copy button leaves out prompts and output"
    assert "Of the newer version." in call(checkout, "git", "show", f"gh-pages:{new}/guide/index.html")
    assert "Of the newer version." not in call(checkout, "git", "show", f"gh-pages:{old}/guide/index.html")
