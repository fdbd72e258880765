"""Lists of nodes as schedulers write them."""

from __future__ import annotations

import re

from ..errors import UsageError

_PART = re.compile(r"(?P<stem>[A-Za-z0-9._-]+)(?:\[(?P<ranges>[0-9,-]+)\])?(?:,|$)")
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")

MOST = 100_000
"""Nodes in a list."""


def expand(text: str, option: str) -> tuple[str, ...]:
    """Return the names in a list such as `n1,n2` or `n[01-16,20],m3`.

    Raises `UsageError`, which names the `option`, if it is not such a list.
    """
    names: dict[str, None] = {}
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise UsageError(f"{option} {text}: expected a list such as n1,n2 or n[01-16,20]")
        position = part.end()
        names |= dict.fromkeys(_names(part["stem"], part["ranges"], f"{option} {text}"))
    return tuple(names)


def _names(stem: str, ranges: str | None, where: str) -> list[str]:
    if ranges is None:
        return [stem]
    names: list[str] = []
    for part in ranges.split(","):
        matched = _RANGE.fullmatch(part)
        if matched is None or int(matched[2] or matched[1]) - int(matched[1]) not in range(MOST):
            raise UsageError(f"{where}: [{ranges}] is not a list of ranges such as 01-16,20")
        begin, end, width = int(matched[1]), int(matched[2] or matched[1]), len(matched[1])
        names += [f"{stem}{number:0{width}}" for number in range(begin, end + 1)]
    return names
