"""Install only the files whose digest is in the lock, with the hash checking of uv and pip.

The requirements file has the digests of every file that the lock accepts (pip's documentation,
"Secure installs"). Exact requirements are written with `===`: `==1.0` would also match `1.0+local`,
a build that the lock does not have.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path

from llmbx.api import Environment, InfraError, UsageError

from ..archives import package_problem
from ..lock_file import Pin, files_of

OPTIONS = ("--require-hashes", "--no-build-isolation")
"""An isolated build would download build tools without a digest."""

_DIGEST = "(?P<digest>[0-9a-f]{64})"
_MISMATCH = (
    re.compile(  # uv
        rf"Hash mismatch for `(?P<name>[^`]{{1,200}})`.{{0,2000}}?Computed:\s+sha256:{_DIGEST}",
        re.DOTALL,
    ),
    re.compile(  # pip
        rf"^[ \t]+(?P<name>\S+) from .{{1,2000}}?\bGot\s+{_DIGEST}", re.DOTALL | re.MULTILINE
    ),
)


def requirements_text(environment: Environment, requirements: Sequence[str]) -> str:
    """A requirements file with the exact `requirements` and their accepted digests."""
    lines = []
    for requirement in requirements:
        digests = sorted(set(files_of(environment, requirement).values()))
        lines.append(" ".join([exact(requirement), *(f"--hash={digest}" for digest in digests)]))
    return "".join(f"{line}\n" for line in lines)


def exact(requirement: str) -> str:
    """`name===version`, which no other build of the version matches."""
    return requirement.replace("==", "===", 1)


def has_file(
    environment: Environment, requirement: str, minor: str, machine: str = platform.machine()
) -> bool:
    """Whether the lock has a file of `requirement` for Python `minor` ("3.11") on `machine`."""
    return any(_fits(name, minor, machine) for name in files_of(environment, requirement))


def builds_of(environment: Environment, requirement: str) -> list[str]:
    """The builds that are accepted for a requirement: its variants, or itself."""
    variants = environment.variants.get(requirement, ((requirement, None),))
    return [build for build, _ in variants]


def require_files(environment: Environment, label: str, minor: str) -> None:
    """Raise `InfraError` if the lock has no files for this platform and Python `minor`."""
    if environment.platforms and Environment.this_platform() not in environment.platforms:
        platforms = f"{', '.join(environment.platforms)}, not for {Environment.this_platform()}"
        raise InfraError(f"environment {label}: its lock is for {platforms}")
    if not environment.files:
        return
    for requirement in (pin for step in environment.steps for pin in step):
        builds = builds_of(environment, requirement)
        if not any(has_file(environment, build, minor) for build in builds):
            target = f"Python {minor} on {platform.machine()}"
            raise InfraError(
                f"environment {label}: its lock has no file of {requirement} for {target}"
            )


def check_wheels(environment: Environment, folder: Path) -> None:
    """Raise `UsageError` for a hostile file of the environment in `folder`, without digests."""
    if environment.files or not folder.is_dir():
        return
    names = {Pin.of(pin)[0] for step in environment.steps for pin in step}
    for path in sorted(folder.iterdir()):
        is_package = path.is_file() and path.name.endswith((".whl", ".tar.gz", ".zip"))
        if not is_package or Pin.in_file(path.name)[0] not in names:
            continue
        if reason := package_problem(path):
            advice = "remove it, or replace it with the original"
            raise UsageError(f"{path} must not be installed: {reason}; {advice}")


def mismatch(lines: Sequence[str], environment: Environment) -> str | None:
    """The first file that an installer refused because of its digest; None if it refused none."""
    text = "\n".join(lines)
    for pattern in _MISMATCH:
        if refused := pattern.search(text):
            name = refused["name"].replace("===", "==")
            digest = f"its digest is sha256:{refused['digest']}, {_accepted(environment, name)}"
            return f"the file of {name} is not the one in the lock: {digest}"
    return None


def _accepted(environment: Environment, requirement: str) -> str:
    digests = list(files_of(environment, requirement).values()) if "==" in requirement else []
    if not digests:
        return "not in the lock"
    return f"the lock has {digests[0] if len(digests) == 1 else f'{len(digests)} others'}"


def _fits(name: str, minor: str, machine: str) -> bool:
    """Whether a file can be installed, from a wheel's tags; source archives always can."""
    if not name.endswith(".whl"):
        return True
    pythons, abi, platforms = name.removesuffix(".whl").rsplit("-", 3)[1:]
    tag = minor.replace(".", "")
    versions = {"py3", f"py{tag}", f"cp{tag}"}
    runs = abi == "abi3" or not versions.isdisjoint(pythons.split("."))
    return runs and any(
        target == "any" or target.endswith(machine) for target in platforms.split(".")
    )
