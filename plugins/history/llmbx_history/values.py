"""The values of a run in the columns of the history, also from a damaged file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from llmbx.api import Scalar

from .columns import COLUMNS, MEASURE_NAME, MEASURE_NUMBERS, Kind

Values = dict[str, Scalar]

LARGEST = 2**63 - 1
"""Largest integer that the database stores."""

_MEASURE_KINDS: dict[str, Kind] = {
    **dict.fromkeys(MEASURE_NUMBERS, "number"),
    "unit": "text",
    "kind": "text",
    "better": "text",
}


def flatten(members: Mapping[str, Any], prefix: str = "") -> Values:
    """The fields of a result, or of a part of it, that are columns.

    Values of the wrong kind become None.
    """
    values: Values = {}
    for key, member in members.items():
        name = prefix + key
        if name == "measures":
            values[name] = _measures_text(member)
        elif name == "nodes":
            values[name] = _nodes_text(member)
        elif type(member) is dict:
            values.update(flatten(member, f"{name}."))
        elif name in COLUMNS and member is not None:
            values[name] = fit(member, COLUMNS[name].kind)
    return values


def fit(value: Any, kind: Kind) -> Scalar:
    """`value` if it is of this kind, else None: a damaged file must not bring other types."""
    if kind == "text":
        return value if type(value) is str else None
    if kind == "flag":
        return value if type(value) is bool else None
    if isinstance(value, int):
        return int(value) if -LARGEST <= value <= LARGEST else None
    return value if type(value) is float and kind in ("number", "date") else None


def words(tags: Sequence[str]) -> str:
    """Tags as one text that contains ` tag ` for each of them."""
    return f" {' '.join(tags)} " if tags else ""


def _nodes_text(nodes: object) -> str | None:
    """The UUID of each rank's GPU by node and rank, as JSON; None if there is none, or damaged."""
    if type(nodes) is not list:
        return None
    named: dict[str, dict[str, str | None]] = {}
    try:
        for node in nodes:
            uuids = {rank: gpu["uuid"] for gpu in node["gpus"] for rank in gpu["ranks"]}
            named[node["node"]] = {str(rank): uuids.get(rank) for rank in node["ranks"]}
        return msgspec.json.encode(named).decode() if named else None
    except (KeyError, TypeError, UnicodeError):
        return None


def _measures_text(measures: object) -> str | None:
    """The measures of a result as JSON text; None without any, or if they are damaged."""
    if type(measures) is not dict:
        return None
    valid = {
        name: {member: fit(facts.get(member), kind) for member, kind in _MEASURE_KINDS.items()}
        for name, facts in measures.items()
        if type(facts) is dict and re.fullmatch(MEASURE_NAME, name)
    }
    return msgspec.json.encode(valid).decode() if valid else None
