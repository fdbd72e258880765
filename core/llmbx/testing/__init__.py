"""What the tests of a plugin use: fixtures for pytest, and a check that holds a plugin to the contract.

A test-suite asks for it in its top `conftest.py`: `pytest_plugins = ["llmbx.testing"]`. It is no entry point of
pytest's, so that the tests of other packages in the same environment neither load it nor see its fixtures. It is the
one part of llmbx that imports pytest, and nothing else of llmbx imports it.
"""

from __future__ import annotations

from .contract import assert_plugin_ok, check_plugin
from .fixtures import llmbx_cli, llmbx_install, llmbx_parse, llmbx_render, llmbx_run, llmbx_spec
from .isolation import Isolated
from .preview import Preview, render_spec, resolve_spec
from .reading import Parsed, parse_text
from .running import Done
from .sample import sample_spec

__all__ = [
    "Done",
    "Isolated",
    "Parsed",
    "Preview",
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
