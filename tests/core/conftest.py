"""What the tests of core share."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own: an index of runs that nobody sees leaves nothing behind.

    It is not in `tmp_path`, which most tests do not need, and is made by what uses it.
    """
    folder = tmp_path_factory.getbasetemp() / "caches" / str(next(NUMBERS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder
