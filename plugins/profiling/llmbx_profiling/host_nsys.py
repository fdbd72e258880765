"""Find the host's nsys, to mount it into images that have none: its folder, and libraries that an image may lack.

NVIDIA's packages include all libraries; Debian's use libelf and zlib of the system. Reports are imported on the host
after the run, so the importer is not needed in the image.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from llmbx.api import RunSpec, Value

from .nsys_tools import find

LIBRARIES = "/opt/llmbx/lib"
"""Mount point of the host's libraries inside an image (also used in `start.sh`); only nsys loads from it."""

HOST_RUNTIMES = ("venv", "host")
"""Runtimes whose ranks see the files of the host."""

_C_LIBRARY = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|nsl|anl)|linux-vdso)\.so\b")
"""Parts of the C library. Every image has its own, and libraries of two C libraries cannot be mixed."""


class HostNsys(Value, frozen=True):
    """The files to mount: nsys with its folder, and its libraries (soname -> path)."""

    program: str
    folder: str
    libraries: dict[str, str] = {}


def find_host_nsys(spec: RunSpec, environ: Mapping[str, str]) -> HostNsys | None:
    """Return the host's nsys for the images of the run; None if there is none, or if ranks see the host's files.

    Only an installation in its own folder (one that contains `target-linux-…`) can be mounted, not /usr/bin.
    """
    nsys = None if spec.runtime in HOST_RUNTIMES else find(environ)
    program = Path(nsys).resolve() if nsys else None
    for folder in [*program.parents][:3] if program else []:
        if any(folder.glob("target-linux-*")):
            return HostNsys(program=str(program), folder=str(folder), libraries=_libraries(str(program), str(folder)))
    return None


def _libraries(program: str, folder: str) -> dict[str, str]:
    """Return the shared libraries that `program` loads from outside `folder`, except the C library."""
    try:
        output = subprocess.run(["ldd", program], capture_output=True, text=True, errors="replace", check=False).stdout
    except OSError:
        return {}
    pairs = re.findall(r"^[ \t]*(\S+) => (/\S+) \(", output, re.MULTILINE)
    return {
        name: path for name, path in sorted(pairs) if not _C_LIBRARY.match(name) and not path.startswith(f"{folder}/")
    }
