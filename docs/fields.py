"""Document records and interfaces from the docstrings of their fields and methods in the source."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

CORE = Path(__file__).parents[1] / "core" / "llmbx"
WIDTH = 120


def records(module: str, *names: str) -> str:
    """A section for each record: its docstring, then every field with its type, default and docstring."""
    return "\n\n".join(_record(_class(module, name)) for name in names)


def interface(module: str, name: str) -> str:
    """The docstring of an interface, its members, then every method with its signature."""
    node = _class(module, name)
    parts = [prose(ast.get_docstring(node) or "")]
    if fields := described_fields(node):
        parts.append("\n".join(fields))
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            parts.append(f"```python\n{signature(item, name)}\n```")
            if item.name != "__init__":
                parts.append(required(ast.get_docstring(item), item.name))
    return "\n\n".join(part for part in parts if part)


def _class(module: str, name: str) -> ast.ClassDef:
    from names import locate

    _, node = locate(CORE / module, name)
    assert isinstance(node, ast.ClassDef)
    return node


def _record(node: ast.ClassDef) -> str:
    fields = "\n".join(described_fields(node))
    parts = [f"### {node.name}", prose(ast.get_docstring(node) or ""), fields]
    lines = properties(node)
    return "\n\n".join([*parts, *(["\n".join(lines)] if lines else [])])


def properties(node: ast.ClassDef) -> list[str]:
    """A list item for each property, with its type and docstring."""
    found = [item for item in node.body if isinstance(item, ast.FunctionDef) and is_property(item)]
    return [_item(f"`.{p.name}` ({_code(p.returns)})", ast.get_docstring(p) or "") for p in found]


def described_fields(node: ast.ClassDef) -> list[str]:
    """A list item for each field, with type, default and docstring.

    Exits if neither a docstring of the field nor that of the class explains it.
    """
    found, about = [], ast.get_docstring(node) or ""
    for item, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign):
            name = ast.unparse(item.target)
            default = f", default {_code(item.value)}" if item.value else ""
            text = _docstring_of(after)
            if not text and f"`{name}`" not in about:
                raise SystemExit(f"{node.name}.{ast.unparse(item)}: the field has no docstring for its page")
            found.append(_item(f"`{name}` ({_code(item.annotation)}{default})", text))
    return found


def _docstring_of(after: ast.stmt | None) -> str:
    """The docstring of a field: the string expression below it."""
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
        return " ".join(after.value.value.split())
    return ""


def _item(head: str, text: str) -> str:
    text = f"{head}: {' '.join(text.split())}" if text else head
    return textwrap.fill(f"- {text}", WIDTH, subsequent_indent="  ", break_long_words=False)


def prose(text: str) -> str:
    """Fold the paragraphs of a docstring; indented ones are examples, which stay as they are."""
    parts = []
    for part in text.split("\n\n"):
        if all(line.startswith("    ") for line in part.splitlines()):
            parts.append(part)
        else:
            parts.append(textwrap.fill(" ".join(part.split()), WIDTH, break_long_words=False))
    return "\n\n".join(re.sub("::$", ":", part) for part in parts)


def required(text: str | None, name: str) -> str:
    """The paragraphs of a docstring. Exits if there is none."""
    if not text:
        raise SystemExit(f"{name}: no docstring for its page")
    return prose(text)


def _code(node: ast.expr | None) -> str:
    return f"`{ast.unparse(node)}`" if node else "`None`"


def signature(node: ast.FunctionDef, owner: str) -> str:
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


def is_property(node: ast.FunctionDef) -> bool:
    """Whether a method is read like a field."""
    return any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)
