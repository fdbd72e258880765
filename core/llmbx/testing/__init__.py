"""Tools for the tests of a plugin: pytest fixtures, and a check that a plugin meets the contract.

A test suite enables the fixtures in its top `conftest.py` with `pytest_plugins = ["llmbx.testing"]`. It is not a pytest
entry point, so that the tests of other packages in the same environment do not load it. Names are imported on first
use: only the fixtures import pytest, so that `llmbx plugins check` works without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from ..testing.conformance import CHECKS as CHECKS
    from ..testing.conformance import assert_conforms as assert_conforms
    from ..testing.contract import assert_plugin_ok as assert_plugin_ok
    from ..testing.contract import check_plugin as check_plugin
    from ..testing.fixtures import llmbx_cli as llmbx_cli
    from ..testing.fixtures import llmbx_install as llmbx_install
    from ..testing.fixtures import llmbx_parse as llmbx_parse
    from ..testing.fixtures import llmbx_render as llmbx_render
    from ..testing.fixtures import llmbx_run as llmbx_run
    from ..testing.fixtures import llmbx_spec as llmbx_spec
    from ..testing.isolation import Isolated as Isolated
    from ..testing.preview import Preview as Preview
    from ..testing.preview import render_spec as render_spec
    from ..testing.preview import resolve_spec as resolve_spec
    from ..testing.reading import Parsed as Parsed
    from ..testing.reading import parse_text as parse_text
    from ..testing.running import Done as Done
    from ..testing.sample import sample_spec as sample_spec

PLACES = {
    "CHECKS": "testing.conformance",
    "assert_conforms": "testing.conformance",
    "assert_plugin_ok": "testing.contract",
    "check_plugin": "testing.contract",
    "llmbx_cli": "testing.fixtures",
    "llmbx_install": "testing.fixtures",
    "llmbx_parse": "testing.fixtures",
    "llmbx_render": "testing.fixtures",
    "llmbx_run": "testing.fixtures",
    "llmbx_spec": "testing.fixtures",
    "Isolated": "testing.isolation",
    "Preview": "testing.preview",
    "render_spec": "testing.preview",
    "resolve_spec": "testing.preview",
    "Parsed": "testing.reading",
    "parse_text": "testing.reading",
    "Done": "testing.running",
    "sample_spec": "testing.sample",
}
"""Name -> its module in llmbx. The imports above are for type checkers."""

__getattr__, __dir__ = lazy(__name__, PLACES)
