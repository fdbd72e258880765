"""Tools for the tests of a plugin: pytest fixtures, and a check that a plugin meets the contract.

A test suite enables it in its top `conftest.py` with `pytest_plugins = ["llmbx.testing"]`. It is not a pytest entry
point, so that the tests of other packages in the same environment do not load it. It is the only part of llmbx that
imports pytest, and no other part of llmbx imports it.
"""

from __future__ import annotations

from .conformance import CHECKS, assert_conforms
from .contract import assert_plugin_ok, check_plugin
from .fixtures import llmbx_cli, llmbx_install, llmbx_parse, llmbx_render, llmbx_run, llmbx_spec
from .isolation import Isolated
from .preview import Preview, render_spec, resolve_spec
from .reading import Parsed, parse_text
from .running import Done
from .sample import sample_spec

__all__ = [
    "CHECKS",
    "Done",
    "Isolated",
    "Parsed",
    "Preview",
    "assert_conforms",
    "assert_plugin_ok",
    "check_plugin",
    "llmbx_cli",
    "llmbx_install",
    "llmbx_parse",
    "llmbx_render",
    "llmbx_run",
    "llmbx_spec",
    "parse_text",
    "render_spec",
    "resolve_spec",
    "sample_spec",
]
