"""Launches of the framework plugins as short texts, for golden files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from llmbx.model import Launch
from llmbx.testing import Preview, render_spec, resolve_spec

from ..core.launchers import scripts as local
from .slurm import scripts as slurm

WRITTEN = re.compile(r"<< '(\w+)'")
SHIM = re.compile(r"> \./rank-")
ABRIDGED = re.compile(
    r"(?:mkdir -p -- (?P<folder>\S+)\n)?"
    r"(?P<tool>cat|base64 -d) > (?P<path>\S+) << 'END_OF_FILE' \|\| unwritten (?P=path)\n"
    r"END_OF_FILE\n"
)
"""The lines of a preview for a file that the script writes."""


def shown(workload: str, **asked: Any) -> str:
    """What `llmbx run … --dry-run --verbose` shows, under Slurm with Pyxis unless asked otherwise.

    The folder, which the second line has, is /folder after it, and the experiment EXPERIMENT. A file is one line.
    """
    spec = resolve_spec(workload, **{"launcher": "slurm", "runtime": "pyxis", **asked})
    return brief(render_spec(spec))


def brief(preview: Preview) -> str:
    """The text of a preview, with short names and lines in place of those that repeat."""
    text = re.sub(r"--user \d+:\d+", "--user UID:GID", preview.text)
    text = ABRIDGED.sub(_file, "".join(f"{line}\n" for line in abridged(text)))
    before, folder, after = text.partition(str(preview.folder))
    return before + folder + after.replace(folder, "/folder").replace(preview.spec.experiment, "EXPERIMENT")


def abridged(script: str) -> Iterator[str]:
    """The lines without the contents of the files that a script writes, except for the ranks' shims."""
    marker = ""
    for line in script.splitlines():
        if not marker:
            yield line
            written = WRITTEN.search(line)
            marker = written[1] if written and not SHIM.search(line) else ""
        elif line == marker:
            yield line
            marker = ""


def _file(match: re.Match[str]) -> str:
    path = PurePosixPath(match["path"])
    folder = PurePosixPath(match["folder"] or ".")
    tool = "" if match["tool"] == "cat" else f" ({match['tool']})"
    return f"file ./{path}{tool}\n" if path.parent == folder else match[0]


def files(launch: Launch) -> str:
    """The files of a launch, one a line."""
    return "".join(f"file ./{name}\n" for name in launch.files)


def wholes() -> Mapping[str, str]:
    """The job scripts whose golden files are wholes, by name."""
    return {**slurm.wholes(), **local.wholes()}
