"""Environment locks: what may stand in their files, and what identifies what they install.

The keys are the fields of `model.Environment`. TOML has no null, so a variant from the
configured indexes is written with an empty index::

    name = "toy-cpu"
    pythons = ["3.11", "3.12"]
    steps = [["torch==2.13.0", "numpy==2.3.5"], ["toy==1.0"]]
    no_deps = [1]
    download_mb = 320
    disk_mb = 1250
    check = "import toy"
    main = ["torch", "toy"]

    [variants]
    "torch==2.13.0" = [["torch==2.13.0+cpu", ""], ["torch==2.13.0", ""]]

    [variant_mb]
    "torch==2.13.0" = [2900, 4800]

    [files]
    "numpy-2.3.5-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl" = "sha256:..."

`llmbx env lock` writes such files. A lock for several platforms lists what all of them install
in `steps`, and the rest by platform; what is built from source is in a later step, with what
the build needs::

    steps = [["setuptools==84.2.1", "toy==1.0"], ["toy-kernels==1.0"]]
    cuda = 13

    [platforms]
    linux-x86_64 = ["triton==3.7.1"]
    linux-aarch64 = []

    [needs]
    "toy-kernels==1.0" = ["nvcc", "cudnn.h"]

    [build_env]
    TOY_FORCE_BUILD = "1"

With the table `files`, exactly these files are installed and each is verified. It must have a
file of every requirement and of every build. Nothing is built in isolation then, because that
would download build tools that are not verified: an earlier step installs what a source archive
needs (usually setuptools).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from llmbx.api import Environment, UsageError, did_you_mean, load_environment

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_PYTHON = re.compile(r"3\.\d+")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PLATFORM = re.compile(r"linux-(?:x86_64|aarch64)")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[\w,. -]*\])?==([A-Za-z0-9.!+_-]+)")

SUFFIX = re.compile(r"\.(?:whl|tar\.gz|zip)$")
"""The end of the name of a wheel or source archive."""


class Pin(NamedTuple):
    """A Python package by its normalized name and its version."""

    name: str
    """The normalized name (`normal_name`)."""
    version: str
    """The version, as the requirement or the file has it."""

    @staticmethod
    def normal_name(name: str) -> str:
        """Normalized name of a package (PEP 503): lower case, one dash for each run of `-_.`."""
        return re.sub(r"[-_.]+", "-", name.strip()).lower()

    @classmethod
    def of(cls, requirement: str) -> Pin:
        """The package of an exact requirement such as `torch==2.13.0`."""
        name, version = requirement.split("==", 1)
        return cls(cls.normal_name(name.split("[")[0]), version)

    @classmethod
    def in_file(cls, name: str) -> Pin:
        """The package in a wheel or source archive, from the name of the file (PyPA's formats)."""
        bare = SUFFIX.sub("", name)
        package, _, version = bare.partition("-") if name.endswith(".whl") else bare.rpartition("-")
        return cls(cls.normal_name(package), version.partition("-")[0])


def read_lock(path: Path) -> Environment:
    """The lock in a file, with all its platforms. Raises `UsageError` with the file name."""
    environment = load_environment(path, whole=True)
    require_valid(environment, str(path))
    return environment


def require_valid(environment: Environment, place: str) -> None:
    """Raise `UsageError` if the lock contradicts itself, or has what is not an exact pin.

    References are checked in a whole lock only: that of one platform has files of others, too.
    """
    is_whole = not environment.platforms or any(environment.platforms.values())
    problem = _form(environment) or (_references(environment) if is_whole else None)
    if problem:
        raise UsageError(f"{place}: {problem}")
    if environment.base is not None:
        require_valid(environment.base, place)


def files_of(environment: Environment, requirement: str) -> dict[str, str]:
    """The digest by name of the files that the lock accepts for an exact requirement."""
    pin = Pin.of(requirement)
    return {name: digest for name, digest in environment.files.items() if Pin.in_file(name) == pin}


def versions_of(environment: Environment) -> dict[str, str]:
    """Version by normalized package name, for every requirement in the lock."""
    return dict(Pin.of(requirement) for step in environment.steps for requirement in step)


def lock_digest(environment: Environment) -> str:
    """The sha256 (hex) of everything that determines the installed packages; not of sizes."""
    import hashlib  # loads OpenSSL, and few commands install anything

    lock = environment
    base = [lock_digest(lock.base)] if lock.base else []
    further = [sorted(lock.files.items()), sorted(lock.variant_packages.items())]
    files = further if lock.files or lock.variant_packages else []
    builds = [sorted(lock.build_env.items())] if lock.build_env else []
    content = [lock.name, lock.steps, lock.no_deps, lock.variants, lock.check]
    return hashlib.sha256(msgspec.json.encode([*content, *base, *files, *builds])).hexdigest()


def _listed(environment: Environment) -> list[str]:
    """The requirements that its steps install."""
    steps = (*environment.steps, *environment.platforms.values())
    return [requirement for step in steps for requirement in step]


def _builds(environment: Environment) -> list[str]:
    return [build for variant in environment.variants.values() for build, _ in variant]


def _added(environment: Environment) -> list[str]:
    """The requirements that are installed with a build."""
    return [pin for packages in environment.variant_packages.values() for pin in packages]


def _form(environment: Environment) -> str | None:
    """The first text of the wrong form, or None."""
    if not _NAME.fullmatch(environment.name):
        allowed = "lower-case letters, digits, '.', '_' and '-'"
        return f"name '{environment.name}' may only contain {allowed}"
    if not environment.pythons or not all(map(_PYTHON.fullmatch, environment.pythons)):
        return 'pythons must list at least one Python version such as "3.11"'
    for requirement in (*_listed(environment), *_builds(environment), *_added(environment)):
        if not _PIN.fullmatch(requirement):
            return f"'{requirement}' is not an exact pin (NAME==VERSION)"
    for number in environment.no_deps:
        if not 0 <= number < len(environment.steps):
            count = f"there are {len(environment.steps)} steps, counted from 0"
            return f"no_deps: there is no step {number} ({count})"
    for name in environment.platforms:
        if not _PLATFORM.fullmatch(name):
            return f"platforms: '{name}' is neither linux-x86_64 nor linux-aarch64"
    for name, digest in environment.files.items():
        if not SUFFIX.search(name):
            return f"files: '{name}' is neither a wheel nor a source archive (.whl, .tar.gz, .zip)"
        if not _DIGEST.fullmatch(digest):
            return f"files: the digest of '{name}' must be sha256: and 64 hexadecimal digits"
    return None


def _packages(environment: Environment) -> set[str]:
    """The packages that it and its base install, by their normalized names."""
    of_base = _packages(environment.base) if environment.base else set()
    return of_base | {Pin.of(requirement).name for requirement in _listed(environment)}


def _references(environment: Environment) -> str | None:
    """The first reference to what is not in the lock, or None."""
    listed, builds = _listed(environment), _builds(environment)
    for table in ("variants", "needs"):
        for requirement in getattr(environment, table):
            if requirement not in listed:
                near = did_you_mean(requirement, listed)
                return f"{table}: no step installs '{requirement}'{near}"
    packages = _packages(environment)
    for name in environment.main:
        if Pin.normal_name(name) not in packages:
            return f"main: no step installs '{name}'{did_you_mean(Pin.normal_name(name), packages)}"
    for table in ("variant_mb", "variant_packages"):
        for build in getattr(environment, table):
            if build not in builds:
                return f"{table}: '{build}' is not a variant{did_you_mean(build, builds)}"
    plain = [requirement for requirement in listed if requirement not in environment.variants]
    required = {Pin.of(pin): pin for pin in (*plain, *builds, *_added(environment))}
    covered = {name: Pin.in_file(name) for name in environment.files}
    for name, pin in covered.items():
        if pin not in required:
            return f"files: no step installs '{name}'"
    missing = next((required[pin] for pin in required if pin not in covered.values()), None)
    if missing is None or not environment.files:
        return None
    return (
        f"files: no file of '{missing}'; the table must cover every requirement and every variant"
    )
