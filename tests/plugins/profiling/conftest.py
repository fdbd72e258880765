"""Both ways of computing, for tests of what is computed."""

from __future__ import annotations

import importlib

import pytest

from llmbx_profiling.analysis.engines import PURE


@pytest.fixture(params=["numpy", "plain"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The analysis computes with numpy (which has to be there), then without."""
    importlib.import_module("numpy")
    name: str = request.param
    monkeypatch.setenv(PURE, "1" if name == "plain" else "0")
    return name
