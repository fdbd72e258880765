"""Read the columns of a run from its files, even if they are damaged or of another version."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec

from llmbx.api import NOT_JSON, Parallelism, RunFolder, decode

from .tags import FILE as TAGS
from .tags import tags_in
from .values import Values, flatten, words

RECORD = "run.json"
RESULT = "result.json"

Date = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)]
"""A time in epoch seconds from 1970 to 9999, which every library of dates can hold."""

UNKNOWN = "unknown"
"""Status of a run without a result until its launcher has been queried."""

OPEN = (UNKNOWN, "pending", "running")
"""Possible statuses of a run without a result."""

DAMAGED = "damaged"
"""Status of a run whose result cannot be read."""


class Unreadable(Exception):
    """A record cannot be read at all; the message is the reason."""


class _Model(msgspec.Struct):
    sequence_length: int | None = None


class _Spec(msgspec.Struct):
    """The part of a specification that is listed."""

    plugin: str
    workload: str
    size: str
    dtype: str
    gpu_type: str
    gpus: int
    recipe: str | None = None
    runtime: str | None = None
    launcher: str | None = None
    micro_batch_size: int | None = None
    global_batch_size: int | None = None
    model: _Model = msgspec.field(default_factory=_Model)
    parallelism: dict[str, Any] = {}
    profile: Any = None
    trace: Any = None
    tags: tuple[str, ...] = ()


class _Job(msgspec.Struct):
    job_id: str | None = None


class _Record(msgspec.Struct):
    """The part of `run.json` that is listed."""

    run_id: str
    id: str
    created: Date
    spec: _Spec
    llmbx_version: str | None = None
    group: str | None = None
    user: str | None = None
    attempt: int = 0
    job: _Job | None = None


_LETTERS = Parallelism.__struct_fields__


def read_values(folder: Path) -> Values:
    """The columns of the run in `folder`. Raises `Unreadable` if its record cannot be read.

    The user of a run is who its record says, unless the folder belongs to somebody else: a stranger
    could have his run taken for the user's. Root may have run it for a user.
    """
    files = RunFolder(path=folder)
    try:
        owner, (content, tagged, result) = files.read_several(RECORD, TAGS, RESULT)
        if isinstance(content, OSError):
            raise content
        record = decode(content, _Record)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None
    except NOT_JSON as error:
        raise Unreadable(str(error)) from None
    return {
        **_planned(record),
        **_measured(result),
        "id": record.id,
        "run_id": record.run_id,
        "created": record.created,
        "llmbx_version": record.llmbx_version,
        "group": record.group,
        "user": record.user if owner in (0, os.geteuid()) else files.owner,
        "experiment": folder.name,
        "tags": words(tags_in(folder, owner, tagged, record.spec.tags)),
    }


def _planned(record: _Record) -> Values:
    """The columns that are known before a run has a result."""
    spec = record.spec
    return flatten(
        {
            "status": UNKNOWN,
            "attempt": record.attempt,
            "job_id": record.job.job_id if record.job else None,
            "recipe": spec.recipe,
            "runtime": spec.runtime,
            "launcher": spec.launcher,
            "profiled": spec.profile is not None,
            "traced": spec.trace is not None,
            "workload": {
                "name": spec.workload,
                "sequence_length": spec.model.sequence_length,
                "plugin": spec.plugin,
                "size": spec.size,
                "dtype": spec.dtype,
                "gpu_type": spec.gpu_type,
                "gpus": spec.gpus,
                "micro_batch_size": spec.micro_batch_size,
                "global_batch_size": spec.global_batch_size,
                "parallelism": {letter: spec.parallelism.get(letter) for letter in _LETTERS},
            },
        }
    )


def _measured(content: bytes | OSError) -> Values:
    """The columns of the result; with status `DAMAGED` if the result cannot be read."""
    if isinstance(content, OSError):
        if isinstance(content, FileNotFoundError):
            return {}
        return {"status": DAMAGED, "cause": f"{RESULT}: {content.strerror}"}
    try:
        values = flatten(decode(content, dict[str, Any]))
    except NOT_JSON as error:
        return {"status": DAMAGED, "cause": f"{RESULT} cannot be read: {error}"}
    if values.get("status") is None:
        values["status"] = DAMAGED
    return {name: value for name, value in values.items() if value is not None}
