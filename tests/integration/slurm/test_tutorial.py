"""The tutorial on accepting a cluster, command by command, on a real Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..reader import TUTORIALS, Reader


def test_its_commands_print_what_it_shows(
    slurm: Any, shared_install: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    update = bool(request.config.getoption("--update-golden"))
    reader = Reader(tmp_path, shared_install, SLURM_CONF=str(slurm.config))
    reader.follow(TUTORIALS / "accept-a-cluster.md", update)
