"""Finished runs (as for comparisons), and `jobs` as a user calls it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pluggy
import pytest
from click.testing import CliRunner, Result

from llmbx import builtin, hookspecs
from llmbx.cli.workspace import Workspace
from llmbx.config.install import Install
from llmbx.errors import LlmbxError
from llmbx.plugins.manager import Plugins
from llmbx_history import plugin as history
from llmbx_history.jobs import command

from ...run_factory import RunFactory, Toy, install, run_factory, spec, toy

__all__ = ["RunFactory", "install", "run_factory", "spec", "toy"]

Jobs = Callable[..., Result]


@pytest.fixture
def plugins(toy: Toy) -> Plugins:
    """The toy framework and the local launcher."""
    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)
    registry.register(toy, name="toy")
    registry.register(builtin, name="local")
    registry.register(history, name="history")
    return Plugins(registry, [])


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch, install: Install, plugins: Plugins) -> Jobs:
    """`jobs("--status", "failed")`: the verb, on this test's install."""
    monkeypatch.setattr(Workspace, "install_and_plugins", lambda: (install, lambda: plugins))

    def invoke(*arguments: str) -> Result:
        done = CliRunner().invoke(command, list(arguments))
        if isinstance(done.exception, LlmbxError):
            raise done.exception
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return invoke


@pytest.fixture
def listed(jobs: Jobs) -> Callable[..., list[dict[str, Any]]]:
    """The same as JSON."""

    def invoke(*arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(jobs(*arguments, "--format", "json").stdout)
        return found

    return invoke
