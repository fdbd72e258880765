"""What the tests of framework plugins share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from llmbx.testing import render_spec, resolve_spec

from ..core.conftest import cache_home  # noqa: F401


@pytest.fixture
def shown() -> Callable[..., str]:
    """`shown("grok1", gpus=128, …)`: what `llmbx run … --dry-run` shows, under Slurm with Pyxis unless asked otherwise.

    Without the shell functions that every script has: they have golden files of their own.
    """

    def show(workload: str, **asked: Any) -> str:
        spec = resolve_spec(workload, **{"launcher": "slurm", "runtime": "pyxis", **asked})
        text = render_spec(spec).text
        text = re.sub(r"--user \d+:\d+", "--user UID:GID", text)
        return re.sub(r"# Functions of every run script.*?\n(?=rank_)", "…\n", text, flags=re.DOTALL)

    return show


@pytest.fixture(autouse=True)
def any_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plugin finds does not depend on the CPU of the machine that runs the tests."""
    monkeypatch.setattr("llmbx.resolve.rules.has_bf16", lambda environ: True)
