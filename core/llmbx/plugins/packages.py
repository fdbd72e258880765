"""Installed packages and their entry points, read from their folders of metadata.

`importlib.metadata` does the same. Its imports, among them those for e-mail, take a sixth of the time of `llmbx list`.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
"""The file with name and version, by the end of the name of a folder of metadata."""


class Distribution:
    """An installed package, by its folder of metadata."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        """The name, as the package spells it."""
        return self._header("Name")

    @property
    def version(self) -> str:
        """The version."""
        return self._header("Version")

    def _header(self, name: str) -> str:
        return _headers(self.folder).get(name, "").strip()

    def entry_points(self) -> Iterator[EntryPoint]:
        """What the package provides."""
        group = ""
        for line in map(str.strip, _read(self.folder, "entry_points.txt").splitlines()):
            if line.startswith("["):
                group = line.strip("[]").strip()
            elif line and not line.startswith("#"):
                name, _, value = line.partition("=")
                yield EntryPoint(name=name.strip(), value=value.strip(), group=group, dist=self)


class EntryPoint:
    """What a package provides for `group`: `value` is MODULE or MODULE:ATTRIBUTE."""

    REFERENCE = re.compile(r"^([\w.]+)\s*(?::\s*([\w.]+)\s*)?(?:\[.*\]\s*)?$")

    def __init__(self, name: str, value: str, group: str, dist: Distribution | None = None) -> None:
        self.name, self.value, self.group, self.dist = name, value, group, dist

    @property
    def module(self) -> str:
        """The module of a valid value."""
        match = self.REFERENCE.match(self.value)
        return match[1] if match else self.value

    def load(self) -> Any:
        """Import what a valid value refers to."""
        match = self.REFERENCE.match(self.value)
        assert match is not None, self.value
        names = (match[2] or "").split(".") if match[2] else ()
        return functools.reduce(getattr, names, importlib.import_module(match[1]))


def entry_points(path: Iterable[str]) -> list[EntryPoint]:
    """The entry points of all packages on a search path; of several with one name, the first is the installed one."""
    packages: dict[str, Distribution] = {}
    for folder in path:
        for name, package in _packages(folder or os.curdir):
            packages.setdefault(name, package)
    return [point for package in packages.values() for point in package.entry_points()]


def _packages(folder: str) -> Iterator[tuple[str, Distribution]]:
    """The packages in a folder by their normalized names."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 (a path for each of hundreds of packages takes longer than all else)
    except OSError:
        return
    for name in names:
        stem, end = os.path.splitext(name)  # noqa: PTH122
        if end in METADATA:
            yield re.sub(r"[-_.]+", "-", stem.partition("-")[0]).lower(), Distribution(os.path.join(folder, name))  # noqa: PTH118


@functools.cache
def _headers(folder: str) -> dict[str, str]:
    """The headers Name and Version. Only they are read, as parsing all metadata takes milliseconds."""
    text = _read(folder, METADATA[os.path.splitext(folder)[1]])  # noqa: PTH122
    return dict(re.findall(r"^(Name|Version): (.+)$", text.partition("\n\n")[0], re.MULTILINE))


def _read(folder: str, name: str) -> str:
    """A file of the metadata; empty if it cannot be read."""
    try:
        return Path(folder, name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
