"""Stored runs, and `export` as a user calls it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from llmbx.cli.workspace import Workspace
from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.errors import LlmbxError
from llmbx.plugins.manager import Plugins
from llmbx_export import cli as module

from ...run_factory import install, plugins, run_factory, spec, toy

__all__ = ["install", "plugins", "run_factory", "spec", "toy"]

Export = Callable[..., Result]


@pytest.fixture
def export(monkeypatch: pytest.MonkeyPatch, install: Install, plugins: Plugins) -> Export:
    """`export("csv", "last")`: the verb, on this test's install."""
    monkeypatch.setattr(module, "load_workspace", lambda: Workspace(plugins, Config(), {}, install))

    def invoke(*arguments: str) -> Result:
        done = CliRunner().invoke(module.command, list(arguments))
        if isinstance(done.exception, LlmbxError):
            raise done.exception
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return invoke
