"""A pytest plugin: how long each group of tests took, in one table at the end.

The groups of `make unit`, which runs before, come first in it.

A group is what its tests need: nothing (in short, or in many simulated series and damaged files), mypy, environments
built by pip and uv, a framework, Slurm, containers, nsys or a browser. "in all" adds the times of its tests; "from
start to end" is what one would wait for it, with other groups side by side.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

NEEDS = {
    "environments": "environments",
    "slurm": "Slurm",
    "containers": "containers",
    "nsys": "nsys",
    "report": "browser",
}
FRAMEWORKS = ("test_nemo", "test_maxtext", "test_real_faults")
KEPT = "groups.json"
HEAD = f"{'group':<14}{'tests':>7}{'in all':>9}{'from start to end':>20}"

Times = dict[str, dict[str, float]]


def group_of(nodeid: str) -> str:
    """The group of a test by its path."""
    if nodeid.endswith("::test_types"):
        return "types"  # it runs with other groups than the other checks of the code
    path = Path(nodeid.partition("::")[0])
    if "thorough" in path.parts:
        return "simulations"
    if "integration" not in path.parts:
        return "unit"
    if path.name.startswith(FRAMEWORKS):
        return "framework"
    return next((NEEDS[part] for part in path.parts if part in NEEDS), "runs")


class GroupTimes:
    """Adds up what the reports of all test processes say."""

    def __init__(self, kept: Path | None) -> None:
        self.kept = kept
        self.times: Times = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase (set-up, call, tear-down) of one test."""
        nothing = {"tests": 0, "seconds": 0.0, "start": report.start, "stop": report.stop}
        group = self.times.setdefault(group_of(report.nodeid), nothing)
        group["tests"] += report.when == "call"
        group["seconds"] += report.duration
        group["start"] = min(group["start"], report.start)
        group["stop"] = max(group["stop"], report.stop)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table; what an earlier process of the same gate kept comes first."""
        before: Times = json.loads(self.kept.read_text()) if self.kept and self.kept.is_file() else {}
        table = {**before, **self.times}
        if self.kept:
            self.kept.write_text(json.dumps(table))
        terminalreporter.section("time by group")
        terminalreporter.write_line(HEAD)
        for name, group in table.items():
            whole, waited = clock(group["seconds"]), clock(group["stop"] - group["start"])
            terminalreporter.write_line(f"{name:<14}{group['tests']:>7.0f}{whole:>9}{waited:>20}")


def clock(seconds: float) -> str:
    """Minutes and seconds: 12:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def pytest_configure(config: pytest.Config) -> None:
    """Watch in the process that reports, not in those that it starts."""
    if not hasattr(config, "workerinput"):
        root = os.environ.get("LLMBX_TEST_ROOT")
        config.pluginmanager.register(GroupTimes(Path(root) / KEPT if root else None), "llmbx-group-times")
