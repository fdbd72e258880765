"""Tell the result that llmbx wrote from one that the job itself left in the run folder, which is its working folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ..errors import LlmbxError
from ..files import read_record
from ..model import Result
from ..record.folder import RESULT, STEPS, Run, digest, read_result
from ..toml_file import NOT_JSON

LEFT = "result.job.json"
"""Name that a result of the job gets."""

WITH_DIGEST = 3
"""Schema version of a record from which on the run's result has a digest."""


def own_result(run: Run) -> Result | None:
    """The result that llmbx wrote; None if there is none yet. A result that it did not write is renamed to `LEFT`.

    A result of llmbx names this run and has the digest of its content, which a copy keeps in any order and at any time;
    an older version wrote none. Raises `LlmbxError` for a damaged result: one that cannot be read, of a run whose
    steps llmbx has written.
    """
    folder = run.path
    try:
        known = read_result(folder)
    except LlmbxError:
        if (folder / STEPS).exists():
            raise
        known = None
    if known is None and not (folder / RESULT).is_file():
        return None
    if known is not None and known.run_id == run.record.run_id and _is_sealed(run):
        return known
    with suppress(OSError):  # another process was faster
        (folder / RESULT).replace(folder / LEFT)
    return None


def left_result(folder: Path) -> tuple[str, ...]:
    """The warning about a result that llmbx did not write."""
    if not (folder / LEFT).is_file():
        return ()
    return (f"a {RESULT} that llmbx did not write, for example one of the job itself, was set aside as {LEFT}",)


def _is_sealed(run: Run) -> bool:
    """Whether the result has the digest of its content; one of an older version need not have any."""
    try:
        members: Any = msgspec.json.decode(read_record(run.path / RESULT))
    except (OSError, *NOT_JSON):  # changed meanwhile
        return False
    known = members.get("digest")
    return known == digest(members) if known else run.record.schema_version < WITH_DIGEST
