"""A short run of `make fuzz`: valid files with a changed value are read, or refused in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COUNTS = {"result": 12, "run": 12, "steps": 6, "catalog": 3, "profile": 6, "nsys": 60}


@pytest.mark.parametrize("kind", COUNTS)
def test_single_values(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz_values", "--count", str(COUNTS[kind]), kind],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kind}: {COUNTS[kind]} changes, 0 different failures" in done.stdout
