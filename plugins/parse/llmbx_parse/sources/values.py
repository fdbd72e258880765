"""Values of records as JSON has them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping


def as_object(text: bytes) -> dict[str, object] | None:
    """The JSON object `text`, also with NaN and Infinity as Python writes them; None for other
    text.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # also invalid UTF-8, and integers of thousands of digits
        return None
    return value if isinstance(value, dict) else None


def whole_number(values: Mapping[str, object], name: str) -> int | None:
    """The value of this name if it is an integer, also one written as 3.0."""
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if math.isfinite(value) and value == int(value) else None


def real_number(values: Mapping[str, object], name: str) -> float | None:
    """The value of this name if it is a finite number that a float can hold."""
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        return None
    return float(value)
