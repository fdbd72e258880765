"""The programs of benchmarks/gpu as modules: they are scripts beside each other, not a package."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

GPU = Path(__file__).parents[2] / "benchmarks" / "gpu"


class Programs:
    """`gpu.plan` is benchmarks/gpu/plan.py."""

    folder = GPU

    def __getattr__(self, name: str) -> ModuleType:
        return importlib.import_module(name)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    monkeypatch.syspath_prepend(str(GPU))
    yield Programs()
