"""A run as listed by `llmbx jobs`, and as one JSON object."""

from __future__ import annotations

from typing import Any

import msgspec

from llmbx.api import NOT_JSON, Scalar, Value, convert

from .columns import full_name
from .values import Values


class Entry(Value, frozen=True):
    """One run as listed by `llmbx jobs`.

    `status` is that of the result, or of the job while the run is unfinished.
    """

    id: str
    run_id: str
    status: str
    created: float
    folder: str
    workload: str | None = None
    size: str | None = None
    dtype: str | None = None
    gpu_type: str | None = None
    gpus: int | None = None
    step_time_s: float | None = None
    step_time_std_s: float | None = None
    tflops_per_gpu: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    mfu: float | None = None
    loss: float | None = None
    steps_measured: int | None = None
    stability: str | None = None
    plugin: str | None = None
    recipe: str | None = None
    job_id: str | None = None
    group: str | None = None
    data_valid: bool | None = None
    comparable: bool | None = None
    cause: str | None = None
    user: str | None = None
    measures: dict[str, Any] = {}
    tags: tuple[str, ...] = ()


_COLUMNS = {name: full_name(name) or name for name in Entry.__struct_fields__}


def entry(values: Values, folder: str) -> Entry:
    """The listing entry of the run with these columns."""
    members: dict[str, Any] = {name: values.get(column) for name, column in _COLUMNS.items()}
    members["tags"] = str(members["tags"] or "").split()
    members["measures"] = _measures(members["measures"])
    return convert({**members, "folder": folder}, Entry)


def document(values: Values, folder: str) -> str:
    """The listing entry as a piece of the JSON list that `llmbx jobs` prints."""
    text = msgspec.json.format(msgspec.json.encode(entry(values, folder)), indent=2).decode()
    return "  " + text.replace("\n", "\n  ")


def _measures(text: Scalar) -> dict[str, Any]:
    try:
        measures = msgspec.json.decode(str(text or "{}"))
    except NOT_JSON:
        return {}
    return measures if type(measures) is dict else {}
