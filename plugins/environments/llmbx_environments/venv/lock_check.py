"""Check an environment lock: its form, and its digests against the package index."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from llmbx.api import Environment, InfraError, UsageError, read_toml

from ..lock_file import Pin, files_of, read_lock
from . import verified
from .resolution import GLIBC, PLATFORMS, Choice, resolve
from .uv_tool import Uv


def form_problems(path: Path) -> tuple[Environment | None, list[str]]:
    """The lock in a file (None if it cannot be used at all), and what is wrong with its form.

    Raises `UsageError` if the file cannot be read or is not TOML.
    """
    read_toml(path, dict[str, Any])
    try:
        environment = read_lock(path)
    except UsageError as error:
        return None, [str(error).removeprefix(f"{path}: ")]
    if not any(environment.steps):
        return environment, ["no package is locked: steps is empty"]
    problems = []
    if not environment.platforms:
        problems.append("no platforms are named: add the table [platforms]")
    if environment.files:
        problems += _uncovered(environment)
    else:
        problems.append("no file has a digest: the table [files] is missing")
    return environment, problems


def index_problems(environment: Environment, uv: Uv) -> tuple[list[str], list[str]]:
    """Compare the digests with the index. Return the problems, and what could not be compared.

    A problem is a file whose digest is not that of the index, and a package of which the index has
    no accepted file. Indexes beside the main one may have other files of a version; the digest of
    any of them is accepted. Raises `InfraError` if the index cannot be reached; of the lock's own
    further indexes, the packages are only not compared.
    """
    listing = _Listing(environment)
    problems = listing.add(uv)
    alone = uv.without_further_indexes()
    if problems and alone != uv:
        problems = listing.add(alone)
    notes = [f"{build} is not compared: {why}" for build, why in listing.skipped.items()]
    return problems, notes


class _Listing:
    """The files that indexes have for the packages of a lock.

    `skipped`: by requirement, why the last index was not asked for it.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.digests: dict[str, set[str]] = {}
        self.skipped: dict[str, str] = {}

    def add(self, uv: Uv) -> list[str]:
        """Add the files that `uv` finds; return the problems of all files."""
        environment, failures = self.environment, dict[str, None]()
        self.skipped = {}
        for platform, minor in itertools.product(environment.platforms, environment.pythons):
            for group, index in _groups(environment, platform):
                try:
                    self._add_group(uv, group, index, platform, minor)
                except UsageError as error:
                    failures[str(error)] = None
                    reason = "the index does not have all packages"
                    self.skipped |= dict.fromkeys(group, reason)
                except InfraError:
                    if not index:
                        raise
                    self.skipped |= dict.fromkeys(group, f"{index} cannot be reached")
        return [*failures, *self._wrong_digests(), *self._absent()]

    def _add_group(
        self, uv: Uv, group: Sequence[str], index: str | None, platform: str, minor: str
    ) -> None:
        choice = _choice(self.environment, group, minor, index)
        for package in resolve(uv, choice, platform):
            for name, digest in (package.wheels | package.archives).items():
                self.digests.setdefault(name, set()).add(digest)

    def _wrong_digests(self) -> Iterator[str]:
        for name, digest in self.environment.files.items():
            digests = self.digests.get(name, {digest})
            if digest not in digests:
                has = " and ".join(sorted(digests))
                yield f"{name}: the lock has {digest}, the index has {has}"

    def _absent(self) -> Iterator[str]:
        environment = self.environment
        for build in {b: None for p in environment.platforms for b in _builds(environment, p)}:
            files = files_of(environment, build)
            if build not in self.skipped and self.digests.keys().isdisjoint(files):
                yield f"{build}: the index has none of the files in the lock ({', '.join(files)})"


def _uncovered(environment: Environment) -> Iterator[str]:
    """The packages of which the lock has no file for one of its platforms and interpreters."""
    for platform, minor in itertools.product(environment.platforms, environment.pythons):
        machine = PLATFORMS[platform]
        for pin in _pins(environment, platform):
            builds = verified.builds_of(environment, pin)
            if not any(verified.has_file(environment, build, minor, machine) for build in builds):
                yield f"no file of {pin} for Python {minor} on {platform}"


def _choice(
    environment: Environment, group: Sequence[str], minor: str, index: str | None
) -> Choice:
    """What uv looks up: each requirement without its own, and source archives without a wheel."""
    archives = [
        Pin.of(pin)[0]
        for pin in group
        if not any(name.endswith(".whl") for name in files_of(environment, pin))
    ]
    return Choice(
        requirements=tuple(map(verified.exact, group)),
        python=minor,
        glibc=GLIBC[-1],
        deps=False,
        build=tuple(archives),
        indexes=(index,) if index else (),
    )


def _groups(environment: Environment, platform: str) -> list[tuple[list[str], str | None]]:
    """The requirements of a platform with all builds, each group with its further index.

    A group has no package twice.
    """
    groups: list[tuple[dict[str, str], str | None]] = []
    for build, index in _builds(environment, platform).items():
        name = Pin.of(build)[0]
        for group, source in groups:
            if source == index and name not in group:
                group[name] = build
                break
        else:
            groups.append(({name: build}, index))
    return [(list(group.values()), index) for group, index in groups]


def _builds(environment: Environment, platform: str) -> dict[str, str | None]:
    """Every exact requirement that may be installed on a platform, with its further index."""
    builds: dict[str, str | None] = {}
    for pin in _pins(environment, platform):
        for build, index in environment.variants.get(pin, ((pin, None),)):
            builds[build] = builds.get(build) or index
            builds |= dict.fromkeys(environment.variant_packages.get(build, ()))
    return {build: index for build, index in builds.items() if files_of(environment, build)}


def _pins(environment: Environment, platform: str) -> list[str]:
    steps = (*environment.steps, environment.platforms[platform])
    return [pin for step in steps for pin in step]
