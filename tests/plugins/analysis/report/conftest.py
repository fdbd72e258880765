"""Fixtures: stored runs and reports on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from llmbx.cli.workspace import Workspace
from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.errors import LlmbxError
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Run
from llmbx_analysis.cli import report as module
from llmbx_analysis.report.build import Report, build
from llmbx_analysis.report.cells import Cell
from llmbx_analysis.report.gather import ReportOptions, gather

from ....run_factory import install, plugins, row, run_factory, spec, toy

__all__ = ["install", "plugins", "row", "run_factory", "spec", "toy"]

Command = Callable[..., Result]


class Reporter:
    """Reads runs into cells and builds reports from them."""

    def __init__(self, install: Install, plugins: Plugins) -> None:
        self.install, self.plugins = install, plugins

    def cells(self, *runs: Run, **options: Any) -> list[Cell]:
        """The cells of the runs."""
        return gather(runs, self.install, self.plugins, Config(), ReportOptions(**options))[0]

    def report(self, *runs: Run, **options: Any) -> Report:
        """The report on the runs."""
        return build(self.cells(*runs, **options))


@pytest.fixture
def reporter(install: Install, plugins: Plugins) -> Reporter:
    return Reporter(install, plugins)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, install: Install, plugins: Plugins) -> Command:
    """`command("last", "--format", "csv")`: run the command; errors of llmbx are raised."""
    monkeypatch.setattr(module, "load_workspace", lambda: Workspace(plugins, Config(), {}, install))

    def invoke(*arguments: str) -> Result:
        done = CliRunner().invoke(module.command, [str(argument) for argument in arguments])
        if isinstance(done.exception, LlmbxError):
            raise done.exception
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return invoke
