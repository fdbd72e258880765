"""The test suite of a third party's package, in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOY = Path(__file__).parents[1] / "fixtures/toy"


def test_a_third_partys_test_suite(tmp_path: Path) -> None:
    """The toy's own tests, run as its author runs them: in its folder, with its configuration."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LLMB"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}"],
        cwd=TOY,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "13 passed" in done.stdout
