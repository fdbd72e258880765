"""The fixtures of `llmbx.testing`: thin layers over functions that work without pytest."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.api import RunSpec

from .isolation import Isolated, without_changes
from .preview import Preview, render_spec, resolve_spec
from .reading import Parsed, parse_text
from .running import Done, command


@pytest.fixture
def llmbx_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Isolated:
    """An isolated install, home and configuration; their variables are set in the test, too."""
    place = Isolated(tmp_path / "llmbx").make()
    kept = without_changes(os.environ)
    for name in [name for name in os.environ if name not in kept]:
        monkeypatch.delenv(name)
    for name, value in place.variables().items():
        monkeypatch.setenv(name, value)
    return place


@pytest.fixture
def llmbx_spec(llmbx_install: Isolated) -> Callable[..., RunSpec]:
    """`llmbx_spec("line", steps=8, settings={"rate": 0.2})`: a resolved specification.

    See `resolve_spec`.
    """
    return functools.partial(resolve_spec, environ=os.environ)


@pytest.fixture
def llmbx_render(llmbx_install: Isolated) -> Callable[..., Preview]:
    """`llmbx_render(spec)`: launch and script, without a start (see `render_spec`)."""
    return render_spec


@pytest.fixture
def llmbx_parse(llmbx_install: Isolated) -> Callable[..., Parsed]:
    """`llmbx_parse(text, spec)`: steps, events and figures of a log (see `parse_text`)."""
    return parse_text


@pytest.fixture
def llmbx_cli(llmbx_install: Isolated) -> Callable[..., Done]:
    """`llmbx_cli("show", "line", env={…}, timeout=60)`: any command, in its own process."""
    return functools.partial(command, llmbx_install)


@pytest.fixture
def llmbx_run(llmbx_install: Isolated) -> Callable[..., Done]:
    """`llmbx_run("line", "--steps", "8")`: `llmbx run`, with the run's folder and result."""
    return functools.partial(command, llmbx_install, "run")
