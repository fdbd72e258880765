"""Resolve requirements for one platform with `uv pip compile`, and read what it chose.

uv writes a standard lock (PEP 751), which names each file with its digest.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from llmbx.api import InfraError, UsageError, Value, read_toml

from ..lock_file import Pin
from ..programs import run
from .failures import network_problem, one_line
from .uv_tool import Uv, configured_uv

PLATFORMS = {"linux-x86_64": "x86_64", "linux-aarch64": "aarch64"}
"""The machine of each platform, as uv and the tags of wheels name it."""

GLIBC = ("2.17", "2.28", "2.31", "2.34", "2.35", "2.39")
"""Versions of glibc for which wheels can be chosen."""

_LONGEST = 600
"""Most characters of uv's error in a message."""


class Choice(Value, frozen=True):
    """What is resolved: requirements and how; the same for every platform.

    `requirements`: package specifications; `files`: requirements files; `build`: packages of which
    the source archive is taken; `alone`: packages whose requirements are left out, as those of
    `build` are; `exclude`: packages that are left out wherever they are required; `constraints`:
    specifications that restrict versions; `indexes`: further package indexes; `deps`: whether the
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
    """One package that uv chose: name, version, digest by file, and its index if a further one.

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
    """uv with pip's settings and the variables of `environ`. Raises `UsageError` without uv."""
    return configured_uv(environ, Path(tempfile.gettempdir()))


def resolve(uv: Uv, choice: Choice, platform: str) -> tuple[Package, ...]:
    """The packages of `choice` on `platform`, by name.

    Raises `UsageError` for requirements that cannot be fulfilled, `InfraError` if an index cannot
    be reached.
    """
    with tempfile.TemporaryDirectory(prefix="llmbx-lock-") as folder:
        argv = _compile_command(uv, choice, platform, Path(folder))
        output = Path(folder) / "pylock.toml"
        done = run([*argv, "--format", "pylock.toml", "--output-file", str(output)], uv.env)
        if done.returncode != 0:
            raise _failure(done.stderr.replace(f"{folder}/", ""), platform)
        chosen = packages(read_toml(output, dict[str, Any]))
        if not choice.indexes:
            return chosen
        # uv names the index of a package in requirements files only.
        listing = run([*argv, "--no-annotate", "--emit-index-annotation"], uv.env).stdout
        return _with_indexes(chosen, listing, choice.indexes)


def packages(lock: Mapping[str, Any]) -> tuple[Package, ...]:
    """The packages of a standard lock, by name. Raises `UsageError` if one is not from an index."""
    entries = map(_package, lock.get("packages", ()))
    return tuple(sorted(entries, key=lambda package: package.name))


def _package(entry: Mapping[str, Any]) -> Package:
    wheels = entry.get("wheels", ())
    archives = [entry["sdist"]] if "sdist" in entry else []
    files = wheels or archives
    if "version" not in entry or not files:
        reason = "only packages of an index can be locked, not folders, archives or git"
        raise UsageError(f"{entry['name']}: {reason}")
    sizes = [file.get("size") for file in files]
    return Package(
        name=Pin.normal_name(entry["name"]),
        version=entry["version"],
        wheels=dict(map(_file, wheels)),
        archives=dict(map(_file, archives)),
        size=None if None in sizes else max(sizes),
    )


def _file(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Name and digest of a file. Raises `InfraError` if the index has no sha256 of it."""
    address = urlsplit(entry.get("url") or entry.get("path") or "")
    name = entry.get("name") or unquote(address.path).rpartition("/")[2]
    sha256 = entry.get("hashes", {}).get("sha256")
    if sha256 is None:
        raise InfraError(f"the package index has no sha256 of {name}, so it cannot be locked")
    return name, f"sha256:{sha256}"


def _with_indexes(
    chosen: tuple[Package, ...], listing: str, indexes: Sequence[str]
) -> tuple[Package, ...]:
    """The packages with the further index that provides each, from uv's annotated listing."""
    further = {url.rstrip("/"): url for url in indexes}
    origins: dict[str, str | None] = {}
    name = ""
    for line in listing.splitlines():
        if requirement := re.match(r"([A-Za-z0-9][\w.-]*)==", line):
            name = Pin.normal_name(requirement[1])
        elif origin := re.match(r"\s+# from (\S+)", line):
            origins[name] = further.get(origin[1].rstrip("/"))
    return tuple(package.replace(index=origins.get(package.name)) for package in chosen)


def _compile_command(uv: Uv, choice: Choice, platform: str, folder: Path) -> list[str]:
    """The argv of uv, with its input files in `folder`.

    Source archives are not run: their metadata are written, without requirements.
    """
    metadata = [
        f'[[dependency-metadata]]\nname = "{name}"\nrequires-dist = []\n'
        for name in sorted({*choice.build, *choice.alone})
    ]
    config = _written(folder / "uv.toml", metadata)
    glibc = choice.glibc.replace(".", "_")
    argv = [uv.path, "pip", "compile", "--quiet", "--config-file", config, "--generate-hashes"]
    argv += ["--python-version", choice.python, "--no-python-downloads"]
    argv += ["--python-platform", f"{PLATFORMS[platform]}-manylinux_{glibc}"]
    argv += ["--only-binary", ":all:"]
    for name in choice.build:
        argv += ["--no-binary", name]
    if choice.constraints:
        argv += ["--constraints", _written(folder / "constraints.txt", choice.constraints)]
    if choice.exclude:
        argv += ["--excludes", _written(folder / "excludes.txt", choice.exclude)]
    for index in choice.indexes:
        argv += ["--index", index]
    if not choice.deps:
        argv.append("--no-deps")
    if uv.no_index:
        argv.append("--no-index")
    if choice.requirements:
        argv.append(_written(folder / "requirements.in", choice.requirements))
    return [*argv, *choice.files]


def _written(path: Path, lines: Iterable[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def _failure(stderr: str, platform: str) -> Exception:
    """The error of uv as one line, without credentials of URLs."""
    reason = one_line(stderr) or "uv failed without an error message"
    hint = "; lock a source archive with --build NAME" if "no usable wheels" in reason else ""
    if len(reason) > _LONGEST:
        reason = f"{reason[:_LONGEST]}…"
    if network_problem(stderr):
        advice = "check the network and pip's settings"
        return InfraError(f"the package index could not be reached: {reason}; {advice}")
    return UsageError(f"{platform}: {reason}{hint}")
