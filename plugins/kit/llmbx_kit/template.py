"""Write the package of a new plugin: `template/KIND` and `template/shared` with its name."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Literal, get_args

from llmbx.api import UsageError, disk_errors

Kind = Literal["framework", "profiler", "launcher", "runtime", "verb"]
KINDS: tuple[str, ...] = get_args(Kind)

PLACEHOLDER = "newplugin"
"""The name of the plugin in the templates; the others are written like it."""

ENDING = ".txt"
"""Every file of a template has this ending, so that no tool takes it for a part of llmbx."""

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def check_name(name: str, plugins: tuple[str, ...]) -> None:
    """Raise `UsageError` if no new plugin can have this name; `plugins` are those of others."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        expected = "expected lower-case letters and digits, such as my_lm"
        raise UsageError(f"'{name}' cannot be the name of a plugin: {expected}")
    if name in plugins:
        raise UsageError(f"a plugin named '{name}' exists already: choose another name")


def files(name: str, kind: Kind) -> dict[str, str]:
    """The files of a new plugin: path in its folder -> content."""
    contents: dict[str, str] = {}
    base = Path(__file__).with_name("template")
    for root in (base / "shared", base / kind):
        for file in sorted(root.rglob(f"*{ENDING}")):
            path = file.relative_to(root).as_posix().removesuffix(ENDING)
            contents[_renamed(path, name)] = _renamed(file.read_text(encoding="utf-8"), name)
    contents[f"src/llmbx_{name}/__init__.py"] = ""
    return dict(sorted(contents.items()))


def write(folder: Path, name: str, kind: Kind) -> list[Path]:
    """Write the files of a new plugin into `folder`; return their paths.

    Raises `UsageError` if the folder exists and is not empty, or if it cannot be created.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty: name another folder with --folder")
    if file := next((path for path in (folder, *folder.parents) if path.is_file()), None):
        raise UsageError(f"cannot create {folder}: {file} is a file")
    written = []
    with disk_errors(str(folder)):
        for path, content in files(name, kind).items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
            written.append(target)
    return written


def _renamed(text: str, name: str) -> str:
    words = "".join(part.capitalize() for part in name.split("_"))
    return (
        text.replace(f"llmbx-{PLACEHOLDER}", f"llmbx-{name.replace('_', '-')}")
        .replace(PLACEHOLDER.upper(), name.upper())
        .replace(PLACEHOLDER.capitalize(), words)
        .replace(PLACEHOLDER, name)
    )
