"""Write the archive of an acceptance, and say what it lacks."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path

from llmbx.api import LlmbxError, UsageError, format_bytes, plural, write_atomic
from llmbx.api.verbs import Workspace

from ..suite.item import Outcome
from ..suite.store import Acceptance, name_of
from .container import pack
from .content import ACCEPTANCE, MANIFEST, RUNS, Manifest, digest, run_files, without_secrets


def write(path: Path, acceptance: Acceptance, outcomes: Mapping[str, Outcome], workspace: Workspace) -> str:
    """Write the archive, and return one line about it. Raises `UsageError` if a run is gone."""
    files = {ACCEPTANCE: acceptance.encoded()}
    for number, item in enumerate(acceptance.items, 1):
        if item.key in outcomes:
            files[name_of(number)] = outcomes[item.key].encoded()
    runs, left_out = _runs(outcomes, workspace, files)
    files = {name: without_secrets(content, os.environ) for name, content in files.items()}
    manifest = Manifest(
        llmbx_version=acceptance.llmbx_version,
        acceptance_id=acceptance.acceptance_id,
        files={name: digest(content) for name, content in sorted(files.items())},
        runs=runs,
        left_out=tuple(left_out),
    )
    packed = io.BytesIO()
    pack(packed, {MANIFEST: manifest.encoded(), **files})
    write_atomic(path, packed.getvalue())
    size, without = (
        format_bytes(len(packed.getvalue())),
        f"; left out: {'; '.join(left_out)}" if left_out else "",
    )
    return f"{path}: {plural(len(runs), 'runs')}, {size}, sha256 {digest(packed.getvalue())}{without}"


def _runs(
    outcomes: Mapping[str, Outcome], workspace: Workspace, files: dict[str, bytes]
) -> tuple[dict[str, str], list[str]]:
    """Add the files of all runs; return the folder of each in the archive, and what was left out."""
    runs: dict[str, str] = {}
    left_out: list[str] = []
    for name in [name for outcome in outcomes.values() for name in outcome.runs]:
        folder = f"{RUNS}/{len(runs) + 1:04}"
        try:
            own, without = run_files(workspace.find_run(name))
        except LlmbxError as error:
            raise UsageError(f"{name} cannot be archived: {error}") from None
        files |= {f"{folder}/{file}": content for file, content in own.items()}
        left_out += [f"{folder}/{line}" for line in without]
        runs[name] = folder
    return runs, left_out
