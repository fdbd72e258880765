"""A registry on loopback, and no logins but those that a test writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .loopback_registry import Registry


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setenv("ENROOT_CONFIG_PATH", str(tmp_path / "enroot"))
    server = Registry()
    yield server
    server.shutdown()
    server.server_close()
