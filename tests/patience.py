"""How long tests wait for an event that has to come."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 300.0
"""Ten times and more what the slowest of these events takes on a quiet machine."""


def wait_until(
    condition: Callable[[], object], what: str = "it did not happen in time", seconds: float = PATIENCE_S
) -> None:
    """Wait until `condition` holds; `what` says what is missing when it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
