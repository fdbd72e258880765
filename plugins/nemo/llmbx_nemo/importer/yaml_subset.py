"""Read the YAML of exemplar-performance: maps and lists by indentation, values and lists in one line, comments."""

from __future__ import annotations

from typing import Any

from llmbx.api import UsageError

Lines = list[tuple[int, str]]


def read_yaml(text: str, source: str) -> Any:
    """Return the maps and lists of a document. Raises `UsageError` for what this subset does not have."""
    lines: Lines = []
    for line in text.splitlines():
        content = line.split(" #")[0].rstrip()
        if content.strip() and not content.lstrip().startswith("#"):
            lines.append((len(content) - len(content.lstrip()), content.strip()))
    try:
        value, end = _block(lines, 0)
        if end < len(lines):
            raise ValueError(lines[end][1])
    except (ValueError, IndexError) as error:
        raise UsageError(f"{source}: cannot be read: {error}") from error
    return value


def _block(lines: Lines, start: int) -> tuple[Any, int]:
    """Return the map or list that begins at a line, and the line after it."""
    if start >= len(lines):
        return None, start
    indent, first = lines[start]
    return _items(lines, start, indent) if first.startswith("- ") else _members(lines, start, indent)


def _items(lines: Lines, start: int, indent: int) -> tuple[list[Any], int]:
    items = []
    while start < len(lines) and lines[start][0] == indent and lines[start][1].startswith("- "):
        content = lines[start][1][2:].strip()
        if ":" in content and content[0] not in "'\"[":
            lines[start] = (indent + 2, content)
            item, start = _members(lines, start, indent + 2)
            items.append(item)
        else:
            items.append(_value(content))
            start += 1
    return items, start


def _members(lines: Lines, start: int, indent: int) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    while start < len(lines) and lines[start][0] == indent and not lines[start][1].startswith("- "):
        key, colon, content = lines[start][1].partition(":")
        if not colon:
            raise ValueError(lines[start][1])
        start += 1
        if content.strip():
            members[_value(key)] = _value(content.strip())
            continue
        deeper = start < len(lines) and (lines[start][0] > indent or lines[start][1].startswith("- "))
        members[_value(key)], start = _block(lines, start) if deeper else (None, start)
    return members, start


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_value(item) for item in text[1:-1].split(",") if item.strip()]
    if text[:1] in ("'", '"') and text[-1:] == text[:1]:
        return text[1:-1]
    return int(text) if text.isdigit() else text
