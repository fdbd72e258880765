"""What every test may use."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from llmbx.model import ModelShape, Parallelism, RunSpec

# A shell that starts the tests in the background has them, and all that they start, ignore Ctrl-C: tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The gate tries the same generated cases each time; developers' machines go on looking for new ones.
settings.register_profile("gate", derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("search", deadline=None)
settings.load_profile("gate" if os.environ.get("CI") else "search")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: `text` equals the file golden/<name> beside the test module."""
    folder = Path(request.path).parent / "golden"
    update = bool(request.config.getoption("--update-golden"))

    def check(name: str, text: str) -> None:
        path = folder / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.is_file(), f"no golden file {path}: run with --update-golden and read what it writes"
        assert text == path.read_text()

    return check


@pytest.fixture
def make_spec() -> Callable[..., RunSpec]:
    """`make_spec(**changes)`: a small valid specification (2 ranks, 20 steps, window 11-18) with changes."""

    def make(**changes: Any) -> RunSpec:
        base = RunSpec(
            plugin="toy",
            workload="line",
            folder="fit_line",
            size="mini",
            dtype="bf16",
            gpu_type="h100",
            gpus=2,
            gpus_per_node=2,
            recipe="plain",
            driver="python",
            model=ModelShape(
                layers=4,
                hidden_size=64,
                ffn_hidden_size=128,
                heads=4,
                query_groups=2,
                vocab_size=1000,
                sequence_length=128,
            ),
            parallelism=Parallelism(dp=2),
            micro_batch_size=1,
            global_batch_size=8,
            gradient_accumulation=4,
            steps=20,
            window="11-18",
            runtime="venv",
            launcher="local",
        )
        return base.replace(**changes)

    return make
