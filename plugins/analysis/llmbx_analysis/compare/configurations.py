"""Differences between the final configurations of two runs, as their frameworks wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llmbx.api import LlmbxError, Scalar
from llmbx.api.verbs import Run, read_final

from .comparison import Difference

WEIGHT = 92
"""A key of the final configuration is what the framework really used."""

OWN = "<run>"
"""Replaces the folder and the id of a run in a value: they differ between any two runs."""


def configuration_differences(a: Run, b: Run) -> list[Difference]:
    """The keys in which the final configurations differ, sorted; one line if only one side has a configuration."""
    found = [_final(run) for run in (a, b)]
    one, two = found
    if one is None or two is None:
        if one is two:
            return []
        states = ["unknown" if final is None else "known" for final in found]
        return [Difference(weight=WEIGHT, what="final configuration", a=states[0], b=states[1],
                           note="only one of the runs wrote it, so it cannot be compared")]  # fmt: skip
    keys = sorted(key for key in one.keys() | two.keys() if one.get(key) != two.get(key))
    return [
        Difference(weight=WEIGHT, what=f"final configuration {key}", a=_shown(one.get(key)), b=_shown(two.get(key)))
        for key in keys
    ]


def _final(run: Run) -> dict[str, Any] | None:
    """The final configuration without what differs between any two runs; None if there is none or it is damaged."""
    try:
        found = read_final(run.path)
    except LlmbxError:
        return None
    if found is None:
        return None
    own = sorted({str(run.path), str(run.path.parent), run.record.run_id}, key=len, reverse=True)
    neutral: dict[str, Any] = _neutral(found.final, own)
    return neutral


def _neutral(value: Any, own: list[str]) -> Any:
    if isinstance(value, str):
        for text in own:
            value = value.replace(text, OWN)
        return value
    if isinstance(value, Mapping):
        return {key: _neutral(member, own) for key, member in value.items()}
    if isinstance(value, list):
        return [_neutral(member, own) for member in value]
    return value


def _shown(value: Any) -> Scalar:
    return value if value is None or isinstance(value, str | int | float | bool) else json.dumps(value)
