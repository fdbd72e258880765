"""A mistake is one or two clear lines and exit code 2, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from pathlib import Path

import pytest

from llmbx.cli import main

from .mistakes import MISTAKES

LISTS = ("problems; --force",)
"""Several faults of one configuration are listed, one a line."""


@pytest.fixture(scope="module", autouse=True)
def empty(tmp_path_factory: pytest.TempPathFactory) -> object:
    """An empty install, home and folder, without GPUs and without a cluster profile."""
    root = tmp_path_factory.mktemp("mistakes")
    (root / "here").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("LLMB", "SLURM", "SBATCH", "HF_"))]:
            patch.delenv(name)
        patch.setenv("HOME", str(root / "home"))
        patch.delenv("XDG_CONFIG_HOME", raising=False)
        patch.setenv("LLMB_INSTALL", str(root / "install"))
        patch.chdir(root / "here")
        yield root / "here"


def said(command: str) -> tuple[int, str]:
    """Exit code and standard error of a command line, in this process."""
    error = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(error):
        patch.setattr(sys, "argv", ["llmbx", *shlex.split(command)])
        code = main._run()
    return code, error.getvalue()


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_named_in_one_or_two_lines(command: str, empty: Path) -> None:
    code, text = said(command)
    assert code == 2, text
    assert MISTAKES[command] in text
    lines = text.strip().splitlines()
    assert len(lines) <= 2 or any(words in text for words in LISTS)
    assert lines[0].startswith("llmbx") and "Traceback" not in text
    assert not [*empty.iterdir()], "nothing is left in the current folder"
