"""Document records and interfaces from the docstrings of their fields and methods in the source."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

CORE = Path(__file__).parents[1] / "core" / "llmbx"
WIDTH = 120


def records(module: str, *names: str) -> str:
    """A section for each record: its docstring, then every field with its type, default and docstring."""
    return "\n\n".join(_record(_class(module, name)) for name in names)


def interface(module: str, name: str) -> str:
    """The docstring of a protocol, its members, then every method with its signature."""
    node = _class(module, name)
    parts = [_prose(ast.get_docstring(node) or "")]
    if fields := _fields(node):
        parts.append("\n".join(fields))
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            parts += [f"```python\n{_signature(item, name)}\n```", _prose(ast.get_docstring(item) or "")]
    return "\n\n".join(part for part in parts if part)


def _class(module: str, name: str) -> ast.ClassDef:
    tree = ast.parse((CORE / module).read_text())
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _record(node: ast.ClassDef) -> str:
    fields = "\n".join(_fields(node))
    parts = [f"### {node.name}", _prose(ast.get_docstring(node) or ""), fields]
    properties = [item for item in node.body if isinstance(item, ast.FunctionDef) and _is_property(item)]
    lines = [_item(f"`.{p.name}` ({_code(p.returns)})", ast.get_docstring(p) or "") for p in properties]
    return "\n\n".join([*parts, *(["\n".join(lines)] if lines else [])])


def _fields(node: ast.ClassDef) -> list[str]:
    found = []
    for item, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign):
            default = f", default {_code(item.value)}" if item.value else ""
            found.append(
                _item(f"`{ast.unparse(item.target)}` ({_code(item.annotation)}{default})", _docstring_of(after, item))
            )
    return found


def _docstring_of(after: ast.stmt | None, field: ast.AnnAssign) -> str:
    """The docstring of a field: the string expression below it. Exits if there is none."""
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
        return " ".join(after.value.value.split())
    raise SystemExit(f"{ast.unparse(field)}: the field has no docstring for docs/values.md")


def _item(head: str, text: str) -> str:
    text = " ".join(text.split())
    return textwrap.fill(f"- {head}: {text}", WIDTH, subsequent_indent="  ", break_long_words=False)


def _prose(text: str) -> str:
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return "\n\n".join(textwrap.fill(part, WIDTH, break_long_words=False) for part in paragraphs)


def _code(node: ast.expr | None) -> str:
    return f"`{ast.unparse(node)}`" if node else "`None`"


def _signature(node: ast.FunctionDef, owner: str) -> str:
    """The declaration of a method; for `__init__`, the call of the class."""
    made = node.name == "__init__"
    arguments = ast.unparse(node.args).removeprefix("self, " if made else "")
    head = owner if made else f"def {node.name}"
    end = ")" if made else f") -> {ast.unparse(node.returns) if node.returns else 'None'}"
    line = f"{head}({arguments}{end}"
    if len(line) <= WIDTH:
        return line
    folded = textwrap.fill(arguments, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return f"{head}(\n{folded}\n{end}"


def _is_property(node: ast.FunctionDef) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)
