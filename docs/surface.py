"""The public surface as lines of text: docs/surface.txt, whose lines may not vanish while the version stays."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from fields import CORE
from names import Definition, imported, locate, of_ranks, public

from llmbx.hookspecs import VERSION
from llmbx.plugins.discovery import HOOKS

FILE = Path(__file__).with_name("surface.txt")
WRITTEN = {
    "llmbx.api": "api/__init__.py",
    "llmbx.api.contract": "api/contract.py",
    "llmbx.api.verbs": "api/verbs.py",
    "llmbx.testing": "testing.py",
}
"""Modules whose names are a written list, with their files."""
LONG = 100
"""Values with more characters are tables, and decorators are options of a command: both may change."""


def surface() -> str:
    """The text of the file: the version, then a line for each name, function, method, field and hook."""
    head = f"VERSION {VERSION[0]}.{VERSION[1]}"
    return "\n".join([head, *sorted({*_listed(), *_entry(), *_hooks()})]) + "\n"


def broken(before: str, now: str) -> str:
    """What to say about lines of `before` that `now` lacks; empty if there are none or the major version is higher."""
    old, new = before.splitlines(), now.splitlines()
    if _major(old[0]) < _major(new[0]):
        return ""
    lines = sorted(set(old[1:]) - set(new))
    if not lines:
        return ""
    advice = "restore them, or increase the major version in llmbx.hookspecs.VERSION and run python docs/generate.py"
    return "\n".join(["these lines of docs/surface.txt vanished or changed:", *lines, advice])


def _major(head: str) -> int:
    return int(head.removeprefix("VERSION ").partition(".")[0])


def _listed() -> Iterator[str]:
    for module, path in WRITTEN.items():
        for name, (file, original) in imported(CORE / path):
            yield from _lines(f"{module}.{name}", file, original)


def _entry() -> Iterator[str]:
    for file in of_ranks():
        for name in public(ast.parse(file.read_text())):
            yield from _lines(f"llmbx.entry.{file.stem}.{name}", file, name)


def _hooks() -> Iterator[str]:
    for name in HOOKS:
        yield from _lines(f"llmbx.hookspecs.{name}", CORE / "hookspecs.py", name)


def _lines(title: str, file: Path, original: str) -> Iterator[str]:
    file, node = locate(file, original)
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(map(ast.unparse, [*node.bases, *node.keywords]))
        yield f"{title}: class({bases})"
        yield from _members(title, file, node)
    else:
        yield f"{title}{_declared(node)}"


def _members(title: str, file: Path, node: ast.ClassDef) -> Iterator[str]:
    """The fields and methods of a class, with those of its base classes, except the one of all records."""
    tree = ast.parse(file.read_text())
    bases = {ast.unparse(base) for base in node.bases} - {"Value"}
    for other in tree.body:
        if isinstance(other, ast.ClassDef) and other.name in bases:
            yield from _members(title, file, other)
        if isinstance(other, ast.ImportFrom) and other.level:
            for name in bases.intersection(alias.name for alias in other.names):
                place, base = locate(file, name)
                if isinstance(base, ast.ClassDef):
                    yield from _members(title, place, base)
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AnnAssign | ast.Assign):
            name = _name(item)
            if not name.startswith("_") or name == "__init__":
                yield f"{title}.{name}{_declared(item)}"


def _name(node: ast.FunctionDef | ast.AnnAssign | ast.Assign) -> str:
    if isinstance(node, ast.FunctionDef):
        return node.name
    return ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])


def _declared(node: Definition) -> str:
    if isinstance(node, ast.FunctionDef):
        marks = "".join(f" @{mark}" for mark in map(ast.unparse, node.decorator_list) if len(mark) <= LONG)
        result = ast.unparse(node.returns) if node.returns else "None"
        return f"({ast.unparse(node.args)}) -> {result}{marks}"
    value = ast.unparse(node.value) if isinstance(node, ast.Assign | ast.AnnAssign) and node.value else ""
    value = f" = {value}" if 0 < len(value) <= LONG else ""
    kind = f": {_type(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
    return f"{kind}{value}"


def _type(annotation: ast.expr) -> str:
    """The type of a field without its option, whose text may change."""
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
        kind, *extras = annotation.slice.elts
        if any(ast.unparse(extra).startswith("Option(") for extra in extras):
            return ast.unparse(kind)
    return ast.unparse(annotation)
