"""Check an environment lock: its form, and its digests against the package index."""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from pathlib import Path

from llmbx.api import Environment, InfraError, UsageError, parse_toml, read_environment, split_pin

from . import verified
from .resolution import GLIBC, PLATFORMS, Choice, resolve
from .uv_tool import Uv

Listed = dict[str, set[str]]
"""The digests of files by name, as indexes have them."""


def form_problems(path: Path) -> tuple[Environment | None, list[str]]:
    """The lock in the file `path` (None if it cannot be used at all), and everything that is wrong with its form.

    Raises `UsageError` if the file cannot be read or is not TOML.
    """
    parse_toml(path)
    try:
        environment = read_environment(path)
    except UsageError as error:
        return None, [str(error).removeprefix(f"{path}: ")]
    if not any(environment.steps):
        return environment, ["no package is locked: steps is empty"]
    found = [] if environment.platforms else ["no platforms are named: add the table [platforms]"]
    if not environment.files:
        return environment, [*found, "no file has a digest: the table [files] is missing"]
    return environment, [*found, *_uncovered(environment)]


def index_problems(environment: Environment, uv: Uv) -> tuple[list[str], list[str]]:
    """Compare the digests with the index. Return the problems, and what could not be compared.

    A problem is a file whose digest is not that of the index, and a package of which the index has no accepted file.
    Indexes beside the main one may have other files of a version; the digest of any of them is accepted. Raises
    `InfraError` if the index cannot be reached; of the lock's own further indexes, the packages are only not compared.
    """
    listed, problems, skipped = _listed(environment, uv)
    problems += _compared(environment, listed, skipped)
    alone = uv.without_further_indexes()
    if problems and alone != uv:
        others, problems, skipped = _listed(environment, alone)
        for name, digests in others.items():
            listed.setdefault(name, set()).update(digests)
        problems += _compared(environment, listed, skipped)
    return problems, [f"{build} is not compared: {why}" for build, why in skipped.items()]


def _uncovered(environment: Environment) -> list[str]:
    """The packages of which the lock has no file for one of its platforms and interpreters."""
    found = []
    for platform in environment.platforms:
        for minor in environment.pythons:
            for pin in _pins(environment, platform):
                builds = [build for build, _ in environment.variants.get(pin, ((pin, None),))]
                if not any(
                    verified.has_file(environment, build, minor, PLATFORMS[platform])
                    for build in builds
                ):
                    found.append(f"no file of {pin} for Python {minor} on {platform}")
    return found


def _compared(environment: Environment, listed: Listed, skipped: Container[str]) -> list[str]:
    problems = [
        f"{name}: the lock has {digest}, the index has {' and '.join(sorted(listed[name]))}"
        for name, digest in environment.files.items()
        if name in listed and digest not in listed[name]
    ]
    for build in dict.fromkeys(
        build for platform in environment.platforms for build in _builds(environment, platform)
    ):
        files = environment.files_of(build)
        if build not in skipped and not any(name in listed for name in files):
            problems.append(
                f"{build}: the index has none of the files in the lock ({', '.join(files)})"
            )
    return problems


def _listed(environment: Environment, uv: Uv) -> tuple[Listed, list[str], dict[str, str]]:
    """The files that the index has for the packages in the lock, the problems, and what was skipped and why."""
    listed: Listed = {}
    problems: dict[str, None] = {}
    skipped: dict[str, str] = {}
    for platform, minor in itertools.product(environment.platforms, environment.pythons):
        for group, index in _groups(environment, platform):
            try:
                found = resolve(uv, _choice(environment, group, minor, index), platform)
            except UsageError as error:
                problems[str(error)] = None
                skipped |= dict.fromkeys(group, "the index does not have all packages")
                continue
            except InfraError:
                if not index:
                    raise
                skipped |= dict.fromkeys(group, f"{index} cannot be reached")
                continue
            for name, digest in (
                file for each in found for file in (*each.wheels.items(), *each.archives.items())
            ):
                listed.setdefault(name, set()).add(digest)
    return listed, list(problems), skipped


def _choice(
    environment: Environment, group: Sequence[str], minor: str, index: str | None
) -> Choice:
    files = {pin: environment.files_of(pin) for pin in group}
    archives = [
        pin for pin, names in files.items() if not any(name.endswith(".whl") for name in names)
    ]
    return Choice(
        requirements=tuple(map(verified.exact, group)), python=minor, glibc=GLIBC[-1], deps=False,
        build=tuple(split_pin(pin)[0] for pin in archives), indexes=(index,) if index else (),
    )  # fmt: skip


def _groups(environment: Environment, platform: str) -> list[tuple[list[str], str | None]]:
    """The requirements of a platform with all builds, each group with its further index; a group has no name twice."""
    groups: list[tuple[dict[str, str], str | None]] = []
    for build, index in _builds(environment, platform).items():
        name = split_pin(build)[0]
        free = next((group for group, at in groups if at == index and name not in group), None)
        if free is None:
            groups.append((free := {}, index))
        free[name] = build
    return [(list(group.values()), index) for group, index in groups]


def _builds(environment: Environment, platform: str) -> dict[str, str | None]:
    """Every exact requirement that may be installed on a platform, with the further index that provides it."""
    found: dict[str, str | None] = {}
    for pin in _pins(environment, platform):
        for build, index in environment.variants.get(pin, ((pin, None),)):
            found[build] = found.get(build) or index
            found |= dict.fromkeys(environment.variant_packages.get(build, ()))
    return {build: index for build, index in found.items() if environment.files_of(build)}


def _pins(environment: Environment, platform: str) -> list[str]:
    return [pin for step in (*environment.steps, environment.platforms[platform]) for pin in step]
