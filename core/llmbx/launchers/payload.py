"""What a launch carries into the run folder: the specification, and the programs with what they import.

    spec.json                   the run's specification, as JSON
    code/train.py               a program of the plugin's package `entry`
    code/llmbx_NAME/entry/…     its other modules
    code/llmbx/entry/…          what every plugin's programs may import

A program is started as `python code/train.py` in the run folder, where its folder is the first that Python searches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec

from ..model import RunSpec

CODE = "code"
SPEC = "spec.json"
CORE = __name__.partition(".")[0]
ENTRY = "entry"
MARK = b'"""The part of a package that travels with a launch."""\n'
"""Makes a folder a package of its own: without it Python would prefer an installed one of the same name."""


def carried(
    spec: RunSpec, package: str, programs: Sequence[str] = ("train.py",), more: Mapping[str, Any] | None = None
) -> dict[str, bytes]:
    """The files of a launch, by their path in the run folder.

    `programs` are the modules of `package`'s folder `entry` that are started; `more` goes into spec.json beside the
    specification, under keys that it does not have.
    """
    job = {**msgspec.to_builtins(spec), **msgspec.to_builtins(more or {})}
    own = _modules(package)
    return {
        SPEC: msgspec.json.format(msgspec.json.encode(job), indent=1) + b"\n",
        **{f"{CODE}/{name}": own.pop(name) for name in programs},
        **_package(package, own),
        **_package(CORE, _modules(CORE)),
    }


def _package(name: str, modules: Mapping[str, bytes]) -> dict[str, bytes]:
    entry = {f"{CODE}/{name}/{ENTRY}/{module}": content for module, content in modules.items()}
    return {f"{CODE}/{name}/__init__.py": MARK, **entry}


def _modules(package: str) -> dict[str, bytes]:
    folder = resources.files(package) / ENTRY
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".py"))
    return {name: (folder / name).read_bytes() for name in names}
