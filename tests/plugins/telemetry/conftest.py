"""The sampler with a library of GPUs that only exist in the tests, and a clock that the test moves."""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx_telemetry.node import sampler
from llmbx_telemetry.samples import Samples, parse

SOURCE = Path(__file__).with_name("nvml_stand_in.c")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in for NVML, compiled."""
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml-stand-in.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", path, SOURCE, "-lm"], check=True)
    return path


@pytest.fixture
def gpus(library: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in, as the sampler sees it, with functions that set its time."""
    loaded: Any = ctypes.CDLL(str(library))
    for name in ("stand_in_energy", "stand_in_throttled"):
        getattr(loaded, name).restype = ctypes.c_double
        getattr(loaded, name).argtypes = [ctypes.c_double]
    loaded.stand_in_set_time.argtypes = [ctypes.c_double]
    loaded.stand_in_support_energy(1)
    monkeypatch.setattr(sampler, "NVML_SO", str(library))
    return loaded


@pytest.fixture
def sampled(gpus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Samples]:
    """`sampled(seconds, at={second: action})`: samples of this process, once a second of a clock that is not real."""

    def sample(seconds: int, at: dict[int, Callable[[], object]] | None = None) -> Samples:
        import os

        now = 1000.0
        monkeypatch.setattr(time, "monotonic_ns", lambda: int(now * 1e9))
        file = tmp_path / "node-0.tsv"
        running = sampler.Sampler(os.getpid(), str(file), 1.0)
        for count in range(seconds + 1):
            now = 1000.0 + count
            gpus.stand_in_set_time(float(count))
            (at or {}).get(count, lambda: None)()
            running.sample(count)
        running.table.flush()
        samples = parse(file.read_bytes())
        assert samples is not None
        return samples

    return sample
