"""What the tests of framework plugins share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from llmbx.config import Config
from llmbx.install import Install
from llmbx.pipeline import admit, enter, findings, plan
from llmbx.plugins import load
from llmbx.report.preview import preview
from llmbx.request import Request
from llmbx.resolve import resolve


@pytest.fixture
def shown() -> Callable[..., str]:
    """`shown("grok1", gpus=128, …)`: what `llmbx run … --dry-run` shows, under Slurm with Pyxis unless asked otherwise.

    Without the shell functions that every script has: they have golden files of their own.
    """

    def show(workload: str, **asked: Any) -> str:
        install = Install(root="/install", origin="test")
        request = Request(workload=workload, **{"launcher": "slurm", "runtime": "pyxis", **asked})
        spec, rooms = enter(resolve(request, load(), Config(), {}, {}, install.root), load(), install, preview=True)
        found = findings(spec, rooms.framework)
        spec = admit(spec, found, force=False)
        image, folder, rendered = plan(spec, rooms)
        text = preview(spec, image, folder, rendered, found, {})
        text = re.sub(r"--user \d+:\d+", "--user UID:GID", text)
        return re.sub(r"# What every run script does.*?\n(?=rank_)", "…\n", text, flags=re.DOTALL)

    return show
