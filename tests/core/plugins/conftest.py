"""Fixtures: third-party packages as an installer writes them, and the llmbx command."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.plugins.manager import Plugins, load

Package = Callable[..., Path]
Llmbx = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder at the front of Python's search path."""
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


@pytest.fixture
def package(site: Path) -> Package:
    """`package("name", code, plugins=("entry",), verbs=("verb",), options=("run.more",), formats=("tap",))`: a
    distribution of one module with entry points.
    """

    def make(
        name: str, code: str = "", plugins: tuple[str, ...] | None = None, verbs: tuple[str, ...] = (),
        options: tuple[str, ...] = (), formats: tuple[str, ...] = (),
    ) -> Path:  # fmt: skip
        module = f"third_{name}"
        (site / f"{module}.py").write_text(textwrap.dedent(code))
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: llmbx-{name}\nVersion: 1.0\n")
        points = [f"{entry} = {module}" for entry in ((name,) if plugins is None else plugins)]
        commands = [f"{verb} = {module}:command" for verb in verbs]
        extensions = [f"{option} = {module}:extension" for option in options]
        renderers = [f"{name} = {module}:render" for name in formats]
        lines = ["[llmbx]", *points, "[llmbx.commands]", *commands, "[llmbx.options]", *extensions]
        lines += ["[llmbx.formats]", *renderers]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        return site / f"{module}.py"

    return make


@pytest.fixture
def loaded(site: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Plugins]:
    """`loaded()`: load all plugins in this process."""
    before = set(sys.modules)

    def make() -> Plugins:
        monkeypatch.syspath_prepend(site)
        try:
            return load.__wrapped__()
        finally:
            for name in {n for n in sys.modules if n.startswith("third_")} - before:
                del sys.modules[name]

    return make


@pytest.fixture
def llmbx(site: Path, tmp_path: Path) -> Llmbx:
    """`llmbx("list", VARIABLE="x")`: run the command as a user does."""

    def call(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "LLMB_INSTALL": str(tmp_path / "install"),
            "PYTHONPATH": str(site), **env,
        }  # fmt: skip
        command = [sys.executable, "-c", "from llmbx.cli.main import main; main()", *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    return call
