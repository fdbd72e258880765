"""Lock environments: resolve requirements into pinned packages with digests, and check such a lock."""  # noqa: E501

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmbx.api import UsageError
from llmbx.api.verbs import OutputPath

if TYPE_CHECKING:
    from llmbx.api import Environment

    from .lock import Builds
    from .resolution import Choice, Package

ENVIRONMENT = "environment"
"""Name of a lock that is printed."""


@click.group("env")
def command() -> None:
    """Lock the packages of an environment with their digests, and check a lock.

    A lock is a TOML file in the format of the environments of workloads: `llmbx run` installs
    exactly its files, and verifies each. Indexes, credentials and proxies are those of pip's
    settings and of the variables UV_*.
    """


@command.command("lock")
@click.argument("requirements", nargs=-1, required=True, metavar="REQUIREMENTS...")
@click.option(
    "--python",
    default="3.12",
    show_default=True,
    metavar="X.Y",
    help="Python version of the environment.",
)
@click.option(
    "--platform",
    "platforms",
    default="linux-x86_64,linux-aarch64",
    show_default=True,
    metavar="A,B",
    help="Platforms, separated by commas.",
)
@click.option(
    "--glibc",
    default="2.28",
    show_default=True,
    metavar="X.Y",
    help="Oldest glibc of the machines.",
)
@click.option(
    "--cuda",
    type=click.Choice(("12", "13", "none")),
    help="Require that all packages are for this CUDA. [default: any]",
)
@click.option(
    "--build",
    "builds",
    multiple=True,
    metavar="NAME[=NEED,NEED]",
    help="Package without a wheel: its source archive is locked, without its requirements; it is "
    "built during the installation, which needs these programs (nvcc, c++) and headers (cudnn.h). "
    "May be repeated.",
)
@click.option(
    "--build-env",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="Variable for builds. May be repeated.",
)
@click.option(
    "--no-deps",
    "alone",
    multiple=True,
    metavar="NAME",
    help="Package without its requirements. May be repeated.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="NAME",
    help="Leave out a package that others require. May be repeated.",
)
@click.option(
    "--constraint",
    "constraints",
    multiple=True,
    metavar="SPEC",
    help="Restrict a version without requiring the package.",
)
@click.option(
    "--index",
    "indexes",
    multiple=True,
    metavar="URL",
    help="Further package index. May be repeated.",
)
@click.option("--name", help="Name of the environment. [default: that of the output file]")
@click.option(
    "--main",
    metavar="A,B",
    help="Packages whose versions runs record. [default: those that are specified]",
)
@click.option(
    "--check",
    default="",
    metavar="CODE",
    help="Python statement that must succeed in the environment.",
)
@click.option(
    "-o",
    "--output",
    "target",
    type=OutputPath(dir_okay=False),
    metavar="FILE",
    help="File to write. [default: standard output]",
)
def lock(
    requirements: tuple[str, ...],
    python: str,
    platforms: str,
    glibc: str,
    cuda: str | None,
    builds: tuple[str, ...],
    variables: tuple[str, ...],
    name: str | None,
    main: str | None,
    check: str,
    target: Path | None,
    **choices: Any,
) -> None:
    """Resolve REQUIREMENTS and write a lock with the exact version and the digest of every file.

    REQUIREMENTS are requirements files, package specifications, and locks (.toml). The versions of
    a lock are kept, except for packages that are also given with a version. Nothing is installed or
    built. The same command and the same index give the same file; without --output it is printed.
    Exits with 2 if the requirements cannot be fulfilled on a platform, and with 4 if the package
    index cannot be reached.

    \b
    Examples:
      llmbx env lock requirements.txt -o toy.toml
      llmbx env lock 'jax[cuda13]' flax --cuda 13 -o jax-cu13.toml
      llmbx env lock torch==2.13.0 toy-kernels --build toy-kernels=nvcc,c++ --platform linux-x86_64 -o toy.toml
    """  # noqa: E501
    from . import lock as locks
    from .resolution import Choice

    label = _name(name, target)
    from_source = _builds(builds, variables)
    _check_choice(python, glibc, choices["indexes"])
    specifications, files = _sorted_out(requirements)
    if from_source.needs:
        specifications.append("setuptools")
    choice = Choice(
        requirements=tuple(specifications),
        files=tuple(files),
        python=python,
        glibc=glibc,
        build=tuple(from_source.needs),
        **choices,
    )
    resolved = _resolve(label, choice, _platforms(platforms), cuda)
    recorded = _names(main.split(",") if main else requirements)
    environment = locks.environment(label, python, resolved, from_source, check, recorded)
    _write(target, environment, locks.text(environment, _comment(target)))


def _check_choice(python: str, glibc: str, indexes: tuple[str, ...]) -> None:
    """Raise `UsageError` for a version or an index that a lock cannot have."""
    from .resolution import GLIBC

    if not re.fullmatch(r"3\.\d{1,2}", python):
        raise UsageError(f"--python {python}: expected a version such as 3.12")
    if glibc not in GLIBC:
        raise UsageError(f"--glibc {glibc}: expected one of {', '.join(GLIBC)}")
    if any("@" in index for index in indexes):
        advice = "it must not have credentials: set them for uv"
        raise UsageError(f"--index: the URL is written into the lock, so {advice}")


@command.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--offline", is_flag=True, help="Check the form only, and ask no package index.")
def check(file: Path, offline: bool) -> None:
    """Check a lock: exact versions, a digest of every file, platforms, and the digests in the
    package index.

    Prints one line for each problem. Exits with 0 if there is none, 1 if there is one, 2 if FILE is
    not a lock, and 4 if the package index cannot be reached: the digests are not compared then.

    \b
    Examples:
      llmbx env check toy.toml
      llmbx env check toy.toml --offline
    """
    from . import lock_check
    from .resolution import find_resolver

    environment, problems = lock_check.form_problems(file)
    if environment is not None and not problems and not offline:
        problems, notes = lock_check.index_problems(environment, find_resolver(os.environ))
        for note in notes:
            click.echo(f"{file}: {note}", err=True)
    for problem in problems:
        click.echo(f"{file}: {problem}")
    if problems or environment is None:
        sys.exit(1)
    counts = f"{_count(environment)} packages, {len(environment.files)} files"
    targets = f"Python {', '.join(environment.pythons)}, {', '.join(environment.platforms)}"
    digests = "digests not compared with an index" if offline else "digests as in the index"
    click.echo(f"{file}: ok: {counts}, {targets}; {digests}")


def _sorted_out(requirements: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Package specifications, with the packages of locks, and requirements files."""
    locks = [text for text in requirements if text.endswith(".toml")]
    files = [text for text in requirements if text not in locks and _is_file(text)]
    for file in files:
        if not Path(file).is_file():
            raise UsageError(f"{file}: there is no such requirements file")
    specifications = [text for text in requirements if text not in (*files, *locks)]
    versioned = _names(text for text in specifications if re.search(r"[=<>~!@]", text))
    kept = [pin for text in locks for pin in _pins(Path(text), versioned)]
    return [*specifications, *kept], files


def _pins(path: Path, replaced: Sequence[str]) -> list[str]:
    """The exact requirements that a lock has for all platforms, without `replaced` packages."""
    from ..lock_file import Pin, read_lock

    pins = [pin for step in read_lock(path).steps for pin in step]
    return [pin for pin in pins if Pin.of(pin)[0] not in replaced]


def _is_file(text: str) -> bool:
    is_path = text.startswith((".", "/")) or text.endswith((".txt", ".in", ".toml"))
    return is_path or Path(text).is_file()


def _names(requirements: Iterable[str]) -> list[str]:
    """The normalized names of the required packages."""
    from ..lock_file import Pin

    specifications = [text for text in requirements if not _is_file(text)]
    names = [re.match(r"[A-Za-z0-9][\w.-]*", text) for text in specifications]
    return list(dict.fromkeys(Pin.normal_name(name[0]) for name in names if name))


def _platforms(text: str) -> list[str]:
    """The platforms of a list. Raises `UsageError` for an unknown one, or for none."""
    from llmbx.api import did_you_mean

    from .resolution import PLATFORMS

    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names or [""]:
        if name not in PLATFORMS:
            hint = did_you_mean(name, PLATFORMS)
            raise UsageError(f"--platform: unknown platform '{name}'{hint}")
    return names


def _builds(builds: Iterable[str], variables: Iterable[str]) -> Builds:
    """What is built from source. Raises `UsageError` for a variable that is not NAME=VALUE."""
    from llmbx.api.verbs import parse_pairs

    from ..lock_file import Pin
    from .lock import Builds

    needs = {}
    for text in builds:
        name, _, listed = text.partition("=")
        parts = [need.strip() for need in listed.split(",")]
        needs[Pin.normal_name(name)] = tuple(filter(None, parts))
    return Builds(needs=needs, env=parse_pairs("--build-env", tuple(variables)))


def _name(name: str | None, target: Path | None) -> str:
    """The environment's name. Raises `UsageError` if it cannot be the name of a folder."""
    label = name or (target.stem if target else ENVIRONMENT)
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", label):
        raise UsageError(f"--name {label}: expected lower-case letters, digits, '.', '_' and '-'")
    return label


def _resolve(
    label: str, choice: Choice, platforms: Iterable[str], cuda: str | None
) -> dict[str, Sequence[Package]]:
    """The packages of every platform, for the required CUDA. Says what only some platforms have."""
    from . import cuda as versions
    from . import lock as locks
    from .resolution import find_resolver, resolve

    version = int(cuda) if cuda and cuda != "none" else None
    if cuda:
        constraints = (*choice.constraints, *versions.constraints(version))
        choice = choice.replace(constraints=constraints)
    uv = find_resolver(os.environ)
    resolved: dict[str, Sequence[Package]] = {}
    for platform in platforms:
        click.echo(f"{label}: resolving for {platform} and Python {choice.python}", err=True)
        resolved[platform] = resolve(uv, choice, platform)
    if cuda:
        locks.require_cuda(resolved, version)
    for line in locks.differences(resolved):
        click.echo(f"{label}: {line}", err=True)
    return resolved


def _write(target: Path | None, environment: Environment, text: str) -> None:
    """Write the lock to its file, or print it. Nothing is written if it cannot be read again."""
    from llmbx.api import write_atomic

    _require_readable(text)
    if target is None:
        click.echo(text, nl=False)
        return
    write_atomic(target, text)
    counts = f"{_count(environment)} packages, {len(environment.files)} files with digests"
    click.echo(f"{target}  {counts}", err=True)


def _count(environment: Environment) -> int:
    """The number of packages of all platforms."""
    steps = (*environment.steps, *environment.platforms.values())
    return len({pin for step in steps for pin in step})


def _comment(target: Path | None) -> str:
    """The command that made the lock; its output file without the folder."""
    output = str(target) if target else None
    argv = [Path(text).name if text == output else text for text in sys.argv[1:]]
    return f"Made by: llmbx {shlex.join(argv)}"


def _require_readable(text: str) -> None:
    """Raise `UsageError` if the lock cannot be used: a file's name does not say its package."""
    from ..lock_file import read_lock

    with tempfile.TemporaryDirectory(prefix="llmbx-lock-") as folder:
        path = Path(folder) / "lock.toml"
        path.write_text(text, encoding="utf-8")
        try:
            read_lock(path)
        except UsageError as error:
            reason = str(error).removeprefix(f"{path}: ")
            raise UsageError(f"the index's files cannot be locked: {reason}") from error
