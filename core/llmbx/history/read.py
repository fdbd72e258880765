"""Read the columns of a run from its files, even if they are damaged or of another version."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from ..codec import decoder
from ..config.install import RECORD
from ..files import user_name
from ..model import Date, Parallelism
from ..record.folder import RESULT
from ..run_files import RunFolder
from ..toml_file import NOT_JSON
from .columns import Values, flatten, words
from .tags import FILE as TAGS
from .tags import tags_in

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


_RECORDS = decoder(_Record)
_RESULTS = decoder(dict[str, Any])
_LETTERS = Parallelism.__struct_fields__


def read_values(folder: Path) -> Values:
    """The columns of the run in `folder`. Raises `Unreadable` if its record cannot be read.

    The user of a run is who its record says, unless the folder belongs to somebody else: a stranger could have his run
    taken for the user's, who repeats the `last`. Root may have run it for a user.
    """
    try:
        owner, (content, tagged, result) = RunFolder(path=folder).read_several(RECORD, TAGS, RESULT)
        if isinstance(content, OSError):
            raise content
        record = _RECORDS.decode(content)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None
    except NOT_JSON as error:
        raise Unreadable(str(error)) from None
    values = {**_planned(record), **_measured(result)}
    values.update(
        {
            "id": record.id,
            "run_id": record.run_id,
            "created": record.created,
            "llmbx_version": record.llmbx_version,
            "group": record.group,
            "user": record.user if owner in (0, os.geteuid()) else user_name(owner),
            "experiment": folder.name,
            "tags": words(tags_in(folder, owner, tagged, record.spec.tags)),
        }
    )
    return values


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
                **{n: getattr(spec, n) for n in ("plugin", "size", "dtype", "gpu_type", "gpus")},
                **{n: getattr(spec, n) for n in ("micro_batch_size", "global_batch_size")},
                "parallelism": {n: spec.parallelism.get(n) for n in _LETTERS},
            },
        }
    )


def _measured(content: bytes | OSError) -> Values:
    """The columns of the result; with status `DAMAGED` if the result cannot be read."""
    if isinstance(content, OSError):
        absent = isinstance(content, FileNotFoundError)
        return {} if absent else {"status": DAMAGED, "cause": f"{RESULT}: {content.strerror}"}
    try:
        values = flatten(_RESULTS.decode(content))
    except NOT_JSON as error:
        return {"status": DAMAGED, "cause": f"{RESULT} cannot be read: {error}"}
    if values.get("status") is None:
        values["status"] = DAMAGED
    return {name: value for name, value in values.items() if value is not None}
