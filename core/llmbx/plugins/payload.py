"""The payload of a launch in the run folder: the specification, and the programs with their imports.

    spec.json                   the run's specification, as JSON
    code/train.py               a program of the plugin's package `entry`
    code/llmbx_NAME/entry/…     its other modules
    code/llmbx/entry/…          modules that every plugin's programs may import: core's, and those of plugins

A program is started as `python code/train.py` in the run folder; Python then searches `code` first for modules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec

from ..entry import GROUP
from ..model import RunSpec
from .discovery import own_first
from .entry_points import points

CODE = "code"
SPEC = "spec.json"
CORE = __name__.partition(".")[0]
ENTRY = "entry"
MARK = b'"""The part of a package that travels with a launch."""\n'
"""Makes a folder a regular package; Python would prefer an installed package to a folder without this file."""


def payload_files(
    spec: RunSpec, package: str, programs: Sequence[str] = ("train.py",), more: Mapping[str, Any] | None = None
) -> dict[str, bytes]:
    """Return the files of the payload by their path in the run folder.

    `programs` are the modules in the folder `entry` of `package` that are started; `more` is added to spec.json, with
    keys that the specification does not have.
    """
    job = {**msgspec.to_builtins(spec), **msgspec.to_builtins(more or {})}
    own = _modules(package)
    return {
        SPEC: msgspec.json.format(msgspec.json.encode(job), indent=1) + b"\n",
        **{f"{CODE}/{name}": own.pop(name) for name in programs},
        **_package(package, own),
        **_package(CORE, dict(sorted({**_brought(), **_modules(CORE)}.items()))),
    }


def _package(name: str, modules: Mapping[str, bytes]) -> dict[str, bytes]:
    entry = {f"{CODE}/{name}/{ENTRY}/{module}": content for module, content in modules.items()}
    return {f"{CODE}/{name}/__init__.py": MARK, **entry}


def _modules(package: str) -> dict[str, bytes]:
    folder = resources.files(package) / ENTRY
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".py"))
    return {name: (folder / name).read_bytes() for name in names}


def _brought() -> dict[str, bytes]:
    """The modules of `llmbx.entry` that plugins bring. Of several with one name, llmbx's own is taken."""
    places = {point.name: point.value for point in reversed(own_first(points(GROUP)))}
    return {f"{name}.py": _source(place) for name, place in places.items()}


def _source(module: str) -> bytes:
    package, _, name = module.rpartition(".")
    return (resources.files(package) / f"{name}.py").read_bytes()
