"""What the tests of framework plugins share."""

from __future__ import annotations

import pytest

from ..core.conftest import cache_home  # noqa: F401


@pytest.fixture(autouse=True)
def any_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plugin finds does not depend on the CPU of the machine that runs the tests."""
    monkeypatch.setattr("llmbx.resolve.rules.has_bf16", lambda environ: True)
