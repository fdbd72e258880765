"""Resolve requirements for one platform with `uv pip compile`, and read the files and digests that it finds.

uv gets the user's pip settings, as for an installation. It writes a standard lock (PEP 751), which names each file.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from llmbx.api import InfraError, UsageError, Value, normal_package_name, parse_toml

from .failures import network_problem, one_line
from .pip_tool import configured_uv
from .uv_tool import Uv

PLATFORMS = {"linux-x86_64": "x86_64", "linux-aarch64": "aarch64"}
"""The machine of each platform, as uv and the tags of wheels name it."""

GLIBC = ("2.17", "2.28", "2.31", "2.34", "2.35", "2.39")
"""Versions of glibc for which wheels can be chosen."""


class Choice(Value, frozen=True):
    """What is resolved: requirements and how; the same for every platform.

    `requirements`: package specifications; `files`: requirements files; `build`: packages of which the source archive
    is taken; `alone`: packages whose requirements are left out, as those of `build` are; `exclude`: packages that are
    left out wherever they are required;
    `constraints`: specifications that restrict versions; `indexes`: further package indexes; `deps`: whether the
    requirements of packages are resolved, too.
    """

    requirements: tuple[str, ...]
    files: tuple[str, ...] = ()
    python: str = "3.12"
    glibc: str = "2.28"
    build: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    deps: bool = True


class Package(Value, frozen=True):
    """One package that uv chose: normalized name, version, digest by file, and its index if that is a further one.

    `size`: bytes of its largest file; None if the index does not say.
    """

    name: str
    version: str
    wheels: dict[str, str]
    archives: dict[str, str]
    index: str | None = None
    size: int | None = None

    @property
    def pin(self) -> str:
        """The exact requirement."""
        return f"{self.name}=={self.version}"


def find_resolver(environ: Mapping[str, str]) -> Uv:
    """uv with pip's settings and the variables of `environ`. Raises `UsageError` if uv is not installed."""
    return configured_uv(environ, sys.executable, Path(tempfile.gettempdir()))


def resolve(uv: Uv, choice: Choice, platform: str) -> tuple[Package, ...]:
    """The packages of `choice` on `platform`, by name.

    Raises `UsageError` for requirements that cannot be fulfilled, `InfraError` if an index cannot be reached.
    """
    with tempfile.TemporaryDirectory(prefix="llmbx-lock-") as folder:
        output = Path(folder) / "pylock.toml"
        argv = _argv(uv, choice, platform, Path(folder), output)
        done = subprocess.run(
            argv, env=uv.env, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            _raise(done.stderr.replace(f"{folder}/", ""), platform)
        found = packages(parse_toml(output))
        return _with_indexes(found, argv, choice.indexes, uv.env) if choice.indexes else found


def packages(lock: Mapping[str, Any]) -> tuple[Package, ...]:
    """The packages of a standard lock (PEP 751), by name. Raises `UsageError` for one that is not from an index."""
    found = []
    for entry in lock.get("packages", ()):
        wheels, archives = entry.get("wheels", ()), [entry["sdist"]] if "sdist" in entry else []
        if "version" not in entry or not (wheels or archives):
            raise UsageError(
                f"{entry['name']}: only packages of an index can be locked, not folders, archives or git"
            )
        sizes = [file.get("size") for file in (wheels or archives)]
        found.append(
            Package(
                name=normal_package_name(entry["name"]),
                version=entry["version"],
                wheels=dict(map(_file, wheels)),
                archives=dict(map(_file, archives)),
                size=None if None in sizes else max(sizes),
            )
        )
    return tuple(sorted(found, key=lambda package: package.name))


def _with_indexes(
    found: tuple[Package, ...], argv: Sequence[str], indexes: Sequence[str], env: Mapping[str, str]
) -> tuple[Package, ...]:
    """The packages with the index that provides each. uv names it in requirements files only."""
    start, output = argv.index("--format"), argv.index("--output-file")
    again = [*argv[:start], "--no-annotate", "--emit-index-annotation", *argv[output + 2 :]]
    done = subprocess.run(
        again, env=dict(env), capture_output=True, text=True, errors="replace", check=False
    )
    origins: dict[str, str] = {}
    pin = ""
    for line in done.stdout.splitlines():
        if new := re.match(r"([A-Za-z0-9][\w.-]*)==", line):
            pin = normal_package_name(new[1])
        elif origin := re.match(r"\s+# from (\S+)", line):
            origins[pin] = origin[1].rstrip("/")
    further = {url.rstrip("/"): url for url in indexes}
    return tuple(
        package.replace(index=further.get(origins.get(package.name, ""))) for package in found
    )


def _argv(uv: Uv, choice: Choice, platform: str, folder: Path, output: Path) -> list[str]:
    """The argv of uv. The source archives of `build` are not run: their metadata are written, without requirements."""
    source = _written(folder / "requirements.in", choice.requirements)
    known = [
        f'[[dependency-metadata]]\nname = "{name}"\nrequires-dist = []\n'
        for name in sorted({*choice.build, *choice.alone})
    ]
    argv = [
        uv.path,
        "pip",
        "compile",
        "--quiet",
        "--config-file",
        _written(folder / "uv.toml", known),
    ]
    argv += ["--generate-hashes", "--format", "pylock.toml", "--output-file", str(output)]
    argv += ["--python-version", choice.python, "--no-python-downloads"]
    argv += [
        "--python-platform",
        f"{PLATFORMS[platform]}-manylinux_{choice.glibc.replace('.', '_')}",
    ]
    argv += [
        "--only-binary",
        ":all:",
        *(part for name in choice.build for part in ("--no-binary", name)),
    ]
    argv += (
        ["--constraints", _written(folder / "constraints.txt", choice.constraints)]
        if choice.constraints
        else []
    )
    argv += (
        ["--excludes", _written(folder / "excludes.txt", choice.exclude)] if choice.exclude else []
    )
    argv += [part for index in choice.indexes for part in ("--index", index)]
    argv += [] if choice.deps else ["--no-deps"]
    argv += ["--no-index"] if uv.no_index else []
    return [*argv, *([source] if choice.requirements else []), *choice.files]


def _written(path: Path, lines: Iterable[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def _file(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Name and digest of a file. Raises `InfraError` if the index has no sha256 of it."""
    place = entry.get("url") or entry.get("path") or ""
    name = entry.get("name") or os.path.basename(unquote(urlsplit(place).path))  # noqa: PTH119 (a URL)
    if "sha256" not in entry.get("hashes", {}):
        raise InfraError(f"the package index has no sha256 of {name}, so it cannot be locked")
    return name, f"sha256:{entry['hashes']['sha256']}"


def _raise(stderr: str, platform: str) -> None:
    """Raise the error of uv as one line, without credentials of URLs."""
    said = one_line(stderr) or "uv failed without an error message"
    if network_problem(stderr):
        raise InfraError(
            f"the package index could not be reached: {_short(said)}; check the network and pip's settings"
        )
    hint = "; lock a source archive with --build NAME" if "no usable wheels" in said else ""
    raise UsageError(f"{platform}: {_short(said)}{hint}")


def _short(text: str, limit: int = 600) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
