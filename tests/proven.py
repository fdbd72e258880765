"""A pytest plugin: collects what tests prove about the catalog's rows, and compares docs/proven.md with it.

A test records a claim with `record_property("proves", {...})` (see `docs/proven.py`); it counts if the test passes. A
run of all integration tests fails if the page is out of date.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/proven.md"
KEPT = "proven.json"


def render(claims: list[dict[str, Any]]) -> str:
    """The page for these claims."""
    spec = importlib.util.spec_from_file_location("llmbx_docs_proven", ROOT / "docs/proven.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.page(claims))


class Proven:
    """Collects the claims of passed tests from all test processes."""

    def __init__(self, kept: Path) -> None:
        self.kept = kept
        self.claims: list[dict[str, Any]] = []
        self.problem = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the claims of a test that passed."""
        if report.when == "call" and report.passed:
            self.claims += [claim for name, claim in report.user_properties if name == "proves"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the claims and compare the page with them, if every integration test passed."""
        options = session.config.option
        whole = "tests/integration" in session.config.args and not (options.keyword or options.markexpr)
        if not self.claims:
            return
        self.claims.sort(key=lambda claim: json.dumps(claim, sort_keys=True))
        self.kept.write_text(json.dumps(self.claims, indent=1) + "\n")
        if whole and session.exitstatus == 0 and PAGE.read_text() != render(self.claims):
            self.problem = f"docs/proven.md is out of date: run python docs/proven.py {self.kept}"
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what is wrong with the page."""
        if self.problem:
            terminalreporter.section("docs/proven.md")
            terminalreporter.write_line(self.problem)


def pytest_configure(config: pytest.Config) -> None:
    """Collect in the process that reports, not in those that it starts."""
    root = os.environ.get("LLMBX_TEST_ROOT")
    if root and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Proven(Path(root) / KEPT), "llmbx-proven")
