"""Tell the result that llmbx wrote from one that the job itself left in the run folder, which is its working folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ..errors import LlmbxError
from ..model import Result
from ..record.folder import RESULT, STEPS, Run, digest, read_result
from ..run_files import RunFolder
from ..toml_file import NOT_JSON

LEFT = "result.job.json"
"""Name that a result of the job gets."""


def own_result(run: Run, *, rename: bool = True) -> Result | None:
    """The result that llmbx wrote; None if there is none yet. A result that it did not write is renamed to `LEFT`.

    Without `rename`, in the folder of another user, it stays.

    A result of llmbx names this run and has the digest of its content, which a copy keeps in any order and at any time.
    Raises `LlmbxError` for a damaged result: one that cannot be read, of a run whose steps llmbx has written.
    """
    try:
        result = read_result(run.path)
    except LlmbxError:
        if run.files.file(STEPS).exists():
            raise
        result = None
    if result is None and not run.files.file(RESULT).exists():
        return None
    if result is not None and result.run_id == run.record.run_id and _is_sealed(run):
        return result
    if rename:
        with suppress(OSError):  # another process was faster
            run.files.move(RESULT, LEFT)
    return None


def left_result(folder: Path) -> tuple[str, ...]:
    """The warning about a result that llmbx did not write."""
    if not RunFolder(path=folder).file(LEFT).exists():
        return ()
    return (f"a {RESULT} that llmbx did not write, for example one of the job itself, was set aside as {LEFT}",)


def _is_sealed(run: Run) -> bool:
    """Whether the result has the digest of its content."""
    try:
        members: Any = msgspec.json.decode(run.files.read(RESULT))
    except (OSError, *NOT_JSON):  # changed meanwhile
        return False
    return members.get("digest") == digest(members)  # type: ignore[no-any-return]
