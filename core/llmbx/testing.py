"""Tools for the tests of a plugin: pytest fixtures, and a check that a plugin meets the contract.

A test suite enables the fixtures in its top `conftest.py` with `pytest_plugins = ["llmbx.testing"]`. It is not a pytest
entry point, so that the tests of other packages in the same environment do not load it. Names are imported on first
use: only the fixtures import pytest, so that `llmbx plugins check` works without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy

if TYPE_CHECKING:
    from llmbx_kit.conformance import CHECKS as CHECKS
    from llmbx_kit.conformance import assert_conforms as assert_conforms
    from llmbx_kit.contract import assert_plugin_ok as assert_plugin_ok
    from llmbx_kit.contract import check_plugin as check_plugin
    from llmbx_kit.fixtures import llmbx_cli as llmbx_cli
    from llmbx_kit.fixtures import llmbx_install as llmbx_install
    from llmbx_kit.fixtures import llmbx_parse as llmbx_parse
    from llmbx_kit.fixtures import llmbx_render as llmbx_render
    from llmbx_kit.fixtures import llmbx_run as llmbx_run
    from llmbx_kit.fixtures import llmbx_spec as llmbx_spec
    from llmbx_kit.isolation import Isolated as Isolated
    from llmbx_kit.preview import Preview as Preview
    from llmbx_kit.preview import render_spec as render_spec
    from llmbx_kit.preview import resolve_spec as resolve_spec
    from llmbx_kit.reading import Parsed as Parsed
    from llmbx_kit.reading import parse_text as parse_text
    from llmbx_kit.running import Done as Done
    from llmbx_kit.sample import sample_spec as sample_spec

PLACES = {
    "CHECKS": "llmbx_kit.conformance",
    "assert_conforms": "llmbx_kit.conformance",
    "assert_plugin_ok": "llmbx_kit.contract",
    "check_plugin": "llmbx_kit.contract",
    "llmbx_cli": "llmbx_kit.fixtures",
    "llmbx_install": "llmbx_kit.fixtures",
    "llmbx_parse": "llmbx_kit.fixtures",
    "llmbx_render": "llmbx_kit.fixtures",
    "llmbx_run": "llmbx_kit.fixtures",
    "llmbx_spec": "llmbx_kit.fixtures",
    "Isolated": "llmbx_kit.isolation",
    "Preview": "llmbx_kit.preview",
    "render_spec": "llmbx_kit.preview",
    "resolve_spec": "llmbx_kit.preview",
    "Parsed": "llmbx_kit.reading",
    "parse_text": "llmbx_kit.reading",
    "Done": "llmbx_kit.running",
    "sample_spec": "llmbx_kit.sample",
}
"""Name -> its module in the plugin `kit`. The imports above are for type checkers."""

__getattr__, __dir__ = lazy(__name__, PLACES, package="")
