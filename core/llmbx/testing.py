"""Tools for the tests of a plugin: pytest fixtures, and a check that a plugin meets the contract.

A test suite enables the fixtures in its top `conftest.py` with `pytest_plugins = ["llmbx.testing"]`. It is not a pytest
entry point, so that the tests of other packages in the same environment do not load it. Names are imported on first
use: only the fixtures import pytest, so that `llmbx plugins check` works without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy

if TYPE_CHECKING:
    from llmbx_kit.conformance import CHECKS, assert_conforms
    from llmbx_kit.contract import assert_plugin_ok, check_plugin
    from llmbx_kit.fixtures import llmbx_cli, llmbx_install, llmbx_parse, llmbx_render, llmbx_run, llmbx_spec
    from llmbx_kit.isolation import Isolated
    from llmbx_kit.preview import Preview, render_spec, resolve_spec
    from llmbx_kit.reading import Parsed, parse_text
    from llmbx_kit.running import Done
    from llmbx_kit.sample import sample_spec

PLACES = {
    "llmbx_kit.conformance": "CHECKS assert_conforms",
    "llmbx_kit.contract": "assert_plugin_ok check_plugin",
    "llmbx_kit.fixtures": ("llmbx_cli llmbx_install llmbx_parse llmbx_render llmbx_run llmbx_spec"),
    "llmbx_kit.isolation": "Isolated",
    "llmbx_kit.preview": "Preview render_spec resolve_spec",
    "llmbx_kit.reading": "Parsed parse_text",
    "llmbx_kit.running": "Done",
    "llmbx_kit.sample": "sample_spec",
}
"""The names by their module in the plugin `kit`. The imports above are for type checkers."""

__getattr__, __dir__ = lazy(__name__, PLACES, package="")
