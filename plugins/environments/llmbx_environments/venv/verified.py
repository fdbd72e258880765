"""Install only the files whose digest is in the lock, with the hash checking mode of uv and pip.

The requirements file has the digests of every file that the lock accepts (pip's documentation, "Secure installs").
Exact requirements are written with `===`: `==1.0` would also match `1.0+local`, a build that the lock does not have.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path

from llmbx.api import (
    Environment,
    InfraError,
    UsageError,
    split_file,
    split_pin,
    this_platform,
)

from ..archives import package_problem

OPTIONS = ("--require-hashes", "--no-build-isolation")
"""An isolated build would download build tools without a digest."""

_MISMATCH = (
    re.compile(
        r"Hash mismatch for `(?P<name>[^`]{1,200})`.{0,2000}?Computed:\s+sha256:(?P<got>[0-9a-f]{64})",
        re.DOTALL,
    ),  # uv
    re.compile(
        r"^[ \t]+(?P<name>\S+) from .{1,2000}?\bGot\s+(?P<got>[0-9a-f]{64})",
        re.DOTALL | re.MULTILINE,
    ),  # pip
)


def requirements_text(environment: Environment, requirements: Sequence[str]) -> str:
    """A requirements file with the exact `requirements` and the digests that the lock accepts for each."""
    lines = []
    for requirement in requirements:
        digests = sorted(set(environment.files_of(requirement).values()))
        options = "".join(f" --hash={digest}" for digest in digests)
        lines.append(f"{exact(requirement)}{options}\n")
    return "".join(lines)


def exact(requirement: str) -> str:
    """`name===version`, which no other build of the version matches."""
    return requirement.replace("==", "===", 1)


def has_file(
    environment: Environment, requirement: str, minor: str, machine: str = platform.machine()
) -> bool:
    """Whether the lock has a file of `requirement` for Python `minor` ("3.11") on `machine` ("x86_64")."""
    return any(_fits(name, minor, machine) for name in environment.files_of(requirement))


def require_files(environment: Environment, label: str, minor: str) -> None:
    """Raise `InfraError` if the lock is not for this platform, or has digests but no file of a package for it."""
    if environment.platforms and this_platform() not in environment.platforms:
        known = ", ".join(environment.platforms)
        raise InfraError(f"environment {label}: its lock is for {known}, not for {this_platform()}")
    for requirement in (
        (pin for step in environment.steps for pin in step) if environment.files else ()
    ):
        builds = [
            build for build, _ in environment.variants.get(requirement, ((requirement, None),))
        ]
        if not any(has_file(environment, build, minor) for build in builds):
            where = f"Python {minor} on {platform.machine()}"
            raise InfraError(
                f"environment {label}: its lock has no file of {requirement} for {where}"
            )


def check_wheels(environment: Environment, folder: Path) -> None:
    """Raise `UsageError` for a hostile or damaged file of an environment in `folder`, if the lock has no digests."""
    if environment.files or not folder.is_dir():
        return
    wanted = {split_pin(pin)[0] for step in environment.steps for pin in step}
    for path in sorted(folder.iterdir()):
        package = path.is_file() and path.name.endswith((".whl", ".tar.gz", ".zip"))
        if package and split_file(path.name)[0] in wanted and (why := package_problem(path)):
            raise UsageError(
                f"{path} must not be installed: {why}; remove it, or replace it with the original"
            )


def mismatch(lines: Sequence[str], environment: Environment) -> str | None:
    """The first file that an installer refused because of its digest, as one line; None if it refused none."""
    text = "\n".join(lines)
    for pattern in _MISMATCH:
        if found := pattern.search(text):
            name = found["name"].replace("===", "==")
            known = sorted(environment.files_of(name).values()) if "==" in name else []
            wanted = (
                f"the lock has {known[0] if len(known) == 1 else f'{len(known)} others'}"
                if known
                else "not in the lock"
            )
            return f"the file of {name} is not the one in the lock: its digest is sha256:{found['got']}, {wanted}"
    return None


def _fits(name: str, minor: str, machine: str) -> bool:
    """Whether a file can be installed, from the tags in a wheel's name; source archives always can."""
    if not name.endswith(".whl"):
        return True
    pythons, _, platforms = name.removesuffix(".whl").rsplit("-", 3)[1:]
    tag = minor.replace(".", "")
    known = any(
        python in ("py3", f"py{tag}", f"cp{tag}") or "-abi3-" in name
        for python in pythons.split(".")
    )
    return known and any(part == "any" or part.endswith(machine) for part in platforms.split("."))
