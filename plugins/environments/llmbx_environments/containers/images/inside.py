"""Read the versions of an image's Python and packages, by starting it once."""

from __future__ import annotations

import os
import re
import subprocess

from llmbx.api import NOT_JSON, UsageError, decode

from ...programs import run
from .tool import Command

PROBE = """\
version=$(python3 --version) || exit
echo "llmbx-python ${version#Python }"
facts=''
[ ! -f /opt/llmbx/environment.json ] || read -r facts < /opt/llmbx/environment.json
[ -z "$facts" ] || printf 'llmbx-versions %s\\n' "$facts"\
"""
"""POSIX sh that prints the Python version of an image, and the packages of an image that llmbx
built. Listing them with Python itself would take three times as long as printing its version."""

_NO_PROGRAM = re.compile(r"not found|no such file|executable file", re.IGNORECASE)


def python_versions(command: Command, reference: str) -> dict[str, str] | None:
    """Versions of python3 and of the packages of an image that llmbx built.

    None if no container could be started. Raises `UsageError` if the image has no python3 or no
    /bin/sh.
    """
    argv = [*command.argv, "/bin/sh", "-c", PROBE]
    try:
        done = run(argv, {**os.environ, **command.env}, timeout_s=120)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if version := re.search(r"^llmbx-python (\S+)$", done.stdout, re.MULTILINE):
        return {**_package_versions(done.stdout), "python": version[1]}
    for program, title in (("python3", "python3 on its PATH"), ("/bin/sh", "/bin/sh")):
        lines = [line for line in done.stderr.splitlines() if program in line]
        if any(_NO_PROGRAM.search(line) for line in lines):
            raise UsageError(
                f"the image {reference} has no {title}, which llmbx needs to start programs"
            )
    return None


def _package_versions(output: str) -> dict[str, str]:
    """The package versions in the output of `PROBE`; empty if there are none."""
    versions = re.search(r"^llmbx-versions (.+)$", output, re.MULTILINE)
    try:
        return decode(versions[1], dict[str, str]) if versions else {}
    except NOT_JSON:
        return {}
