"""Compare a final configuration with upstream's, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import ExpectedConfiguration, Value


class FieldDifference(Value, frozen=True):
    """One field in which the final configuration differs from upstream's.

    `upstream` and `final` are tuples with the value, or empty if that configuration lacks the key. `reason` is set if
    the difference is permitted.
    """

    key: str
    upstream: tuple[Any, ...]
    final: tuple[Any, ...]
    reason: str | None = None

    def row(self) -> dict[str, Any]:
        """Return the difference as JSON: a side that lacks the key has no member."""
        sides = {name: side[0] for name in ("upstream", "final") if (side := getattr(self, name))}
        return {"key": self.key, **sides, **({"reason": self.reason} if self.reason else {})}


def compare_configurations(final: Mapping[str, Any], expected: ExpectedConfiguration) -> list[FieldDifference]:
    """Return every field in which `final` differs from upstream's configuration, sorted by key.

    Values are compared as JSON: 1 and 1.0 are equal, 1 and true are not. Empty if upstream's configuration is not
    known.
    """
    if expected.upstream is None:
        return []
    keys = sorted(key for key in final.keys() | expected.upstream.keys() if not key.startswith(expected.other))
    return [
        FieldDifference(key=key, upstream=theirs, final=ours, reason=_reason(key, bool(ours), expected))
        for key in keys
        if not _equal(theirs := _side(expected.upstream, key), ours := _side(final, key))
    ]


def compared_fields(final: Mapping[str, Any], expected: ExpectedConfiguration) -> int:
    """Return the number of keys that `compare_configurations` compares."""
    if expected.upstream is None:
        return 0
    return sum(not key.startswith(expected.other) for key in final.keys() | expected.upstream.keys())


def not_permitted(differences: list[FieldDifference]) -> list[FieldDifference]:
    """Return the differences without a reason."""
    return [difference for difference in differences if difference.reason is None]


def _reason(key: str, there: bool, expected: ExpectedConfiguration) -> str | None:
    return next((entry.reason for entry in expected.permitted if entry.covers(key, there)), None)


def _side(values: Mapping[str, Any], key: str) -> tuple[Any, ...]:
    return (values[key],) if key in values else ()


def _equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal; in Python, `True == 1`."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    return bool(left == right)
