"""The machine's nsys, lent to ranks whose image has none: its folder and the libraries that an image may lack.

NVIDIA's packages keep everything beside the program; Debian's take libelf and zlib from the system. What a report still
needs after that (its importer) runs on the machine when the run has ended.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from llmbx.model import RunSpec, Value

from .tools import find

LIBRARIES = "/opt/llmbx/lib"
"""Where lent libraries lie inside an image (`start.sh` names it too); only nsys itself loads from there."""

OWN_FILES = ("venv", "host")
"""Runtimes whose ranks see the machine's files as they are."""

_C_LIBRARY = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|nsl|anl)|linux-vdso)\.so\b")
"""Parts of the C library: every image has its own, and no two of them mix."""


class Lent(Value, frozen=True):
    """What is shown to the ranks: the folder, the program in it, and libraries (name as it is loaded -> path)."""

    program: str
    folder: str
    libraries: dict[str, str] = {}


def lendable(spec: RunSpec, environ: Mapping[str, str]) -> Lent | None:
    """This machine's nsys for the images of the run; None where there is none, or ranks see the machine's own.

    Only an installation in a folder of its own is lent (one with `target-linux-…` in it): /usr/bin cannot be.
    """
    found = None if spec.runtime in OWN_FILES else find(environ)
    program = Path(found).resolve() if found else None
    for folder in [*program.parents][:3] if program else []:
        if any(folder.glob("target-linux-*")):
            return Lent(program=str(program), folder=str(folder), libraries=_libraries(str(program), str(folder)))
    return None


def _libraries(program: str, folder: str) -> dict[str, str]:
    """Shared libraries that `program` loads from elsewhere than `folder` and the C library."""
    try:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, errors="replace", check=False).stdout
    except OSError:
        return {}
    pairs = re.findall(r"^\s*(\S+) => (/\S+) \(", said, re.MULTILINE)
    return {
        name: path for name, path in sorted(pairs) if not _C_LIBRARY.match(name) and not path.startswith(f"{folder}/")
    }
