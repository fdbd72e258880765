"""What every test may use."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from llmbx.model import RunSpec

pytest_plugins = ["llmbx.testing", "tests.collection", "tests.golden", "tests.groups", "tests.proven"]

# The toy's tests are a third party's: tests/thorough/test_third_party_suite.py runs them as such.
collect_ignore = ["fixtures"]

# The thousands of tests are no garbage: looking for some among them takes a third of the time of collecting them.
gc.set_threshold(100_000)

# Test processes run side by side: threads of numpy's that wait for one another take three times the CPU.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell that starts the tests in the background has them, and all that they start, ignore Ctrl-C, and nohup has them
# ignore SIGHUP: tests send both.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The gate tries the same generated cases each time; developers' machines go on looking for new ones.
settings.register_profile("gate", derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("search", deadline=None)
settings.load_profile("gate" if os.environ.get("CI") else "search")


def pytest_collection_finish() -> None:
    """Spare all later searches for garbage what the tests keep to their end."""
    gc.freeze()


@pytest.fixture(scope="session")
def make_spec() -> Callable[..., RunSpec]:
    """`make_spec(**changes)`: a small valid specification (2 ranks, 20 steps, window 11-18) with changes."""
    from llmbx.testing import sample_spec

    return sample_spec
