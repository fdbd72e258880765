"""Every regular expression of llmbx takes time in proportion to the text, on any text (`regex_growth`).

The expressions are found in the source: the first argument of every call of `re`. What is put together at run time, and
what is data (GPU types), is listed in `MADE`.
"""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from llmbx.catalog.hardware import GpuType
from llmbx.entry.find_secrets import _Patterns
from llmbx.entry.secrets import HARMLESS, SECRET
from llmbx.logs.signature_table import explained, signatures
from llmbx.plugins.manager import load
from llmbx_analysis.compare.differences import RULES
from llmbx_explain.slow.configuration import KINDS
from llmbx_nemo.grammar import facts, megatron, nemo2

from ..regex_growth import grows

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("core/llmbx/**/*.py"), *ROOT.glob("plugins/*/llmbx_*/**/*.py")])
FUNCTIONS = {"compile", "match", "search", "sub", "subn", "findall", "finditer", "fullmatch", "split"}
SEARCHES = FUNCTIONS - {"compile", "match", "fullmatch"}
"""Methods with which a match may begin anywhere in the text."""


class Found(NamedTuple):
    """An expression, where it is, its flags, and how it is used."""

    where: str
    pattern: str | bytes
    flags: int
    searched: bool
    whole: bool


AT_RUN_TIME = {
    "core/llmbx/catalog/hardware.py", "plugins/verdict/llmbx_verdict/checks/hardware.py",
    "core/llmbx/run/verdict.py", "plugins/accept/llmbx_accept/facts/node/probe.py",
    "plugins/explain/llmbx_explain/slow/configuration.py",
    "core/llmbx/entry/find_secrets.py", "core/llmbx/secrets.py", "core/llmbx/logs/signature_table.py",
    "plugins/nemo/llmbx_nemo/grammar/facts.py",
    "plugins/nemo/llmbx_nemo/grammar/fields.py", "plugins/analysis/llmbx_analysis/compare/differences.py",
    "plugins/profiling/llmbx_profiling/names.py", "plugins/slurm/llmbx_slurm/allocation.py",
    "plugins/environments/llmbx_environments/containers/images/tool.py",
}  # fmt: skip
"""Files with expressions that `made` lists."""


def made() -> Iterator[tuple[str, str | bytes, bool]]:
    """The expressions that are not in one place of the source, and whether they are searched for."""
    yield from (
        ("signatures", pattern, True)
        for pattern in (
            *(signature.pattern for signature in signatures()),
            *(each.pattern for pair in explained() for each in pair),
        )
    )
    yield from ((f"GPU type {gpu.name}", pattern, True) for gpu in GpuType.builtin().values() for pattern in gpu.match)
    yield from (("secret names", pattern, True) for pattern in (SECRET, HARMLESS))
    secrets = _Patterns()
    matched = (*secrets.tokens.values(), secrets.other_tokens, secrets.dotted)
    yield from (("tokens", pattern.pattern, False) for pattern in matched)
    searched = (*secrets.phrases, *secrets.fields, secrets.options, secrets.pem, secrets.user)
    yield from (("secrets", pattern.pattern, True) for pattern in searched)
    for schema in (megatron.SCHEMA, nemo2.SCHEMA):
        yield from (("schema", pattern.pattern, True) for pattern in (schema.header, schema.beginning))
        matched = (schema.known, schema.other, schema.glued, schema.cut, schema.bare)
        yield from (("schema", pattern.pattern, False) for pattern in matched)
    yield from (("differences", rule.pattern, False) for rule in RULES)
    yield from (("options", pattern, True) for _, pattern in KINDS)
    yield from (("facts", pattern.pattern, True) for _, pattern, _ in (*facts.MEGATRON, *facts.NEMO2))
    yield from (("tool", pattern, True) for pattern in (r"^\W*fatal", r"error|denied|unknown|fail"))
    yield "field of a job", r"(?:^| )NumCPUs=(\S*)", True
    for runtime in load().runtimes().values():
        yield (f"runtime {runtime.name}", getattr(runtime, "start_failure", ""), True)


SLOW = [
    (r"(a+)+b", "", "a"), (r"(a|a)*b", "", "a"), (r"a*a*b", "", "a"), (r"a+b", "", "a"),
    (r"error: .*exceeded", "", "error: "), (r"([a-z]+_)*x", "", "a_"), (r"(.+?)\s*\|", "", " "),
    (r"Epoch *:? *\d*\|", "Epoch", " "), (r"\w+\s*:", "", "a"),
]  # fmt: skip
"""Expressions whose time grows faster than the text, how such a text begins, and what is repeated in it."""

LINEAR = [r"(?<!\w)\w+:", r"\berror \w+:", r"x.{0,40}y", r"^\s*a", r"(.+)$", r"Epoch *+:? *+\d*\|", r"\[[^][]*\]",
          r"^(?:a|bc)+d", r"(?<!\d)(\d+)(?:-(\d+))? ms", r"^(a|ab)*c"]  # fmt: skip


@pytest.mark.parametrize(("pattern", "head", "pump"), SLOW)
def test_the_check_finds_what_is_slow(pattern: str, head: str, pump: str) -> None:
    assert grows(pattern) is not None
    compiled, short = re.compile(pattern), 1
    while _seconds(compiled, head + pump * short) < 0.01:
        short += 1 + short // 4  # exponential ones need few repetitions, the others many
    long = 4 * short if short > 64 else short + 4
    # A linear one would take 4 times as long, a quadratic one 16 times.
    assert _seconds(compiled, head + pump * long) > 7 * _seconds(compiled, head + pump * short)


@pytest.mark.parametrize("pattern", LINEAR)
def test_the_check_lets_pass_what_is_linear(pattern: str) -> None:
    assert grows(pattern) is None


def _seconds(pattern: re.Pattern[str], text: str) -> float:
    """Processor time of one search: what else runs on the machine does not count."""
    began = time.process_time()
    assert pattern.search(text) is None
    return time.process_time() - began


def test_every_expression_is_linear() -> None:
    slow = []
    found = [*written()]
    assert len(found) > 150
    for item in found:
        if why := grows(item.pattern, item.flags, item.searched, item.whole):
            slow.append(f"{item.where}: {why}")
    for where, pattern, searched in made():
        if why := grows(pattern, searched=searched):
            slow.append(f"{where}: {why}")
    assert not slow, "\n".join(slow)


def written() -> Iterator[Found]:
    """The expressions in the source."""
    uses = _uses()
    for path in SOURCES:
        tree, names = ast.parse(path.read_text()), _names(path)
        assigned = {id(node.value): node.targets[0] for node in ast.walk(tree) if isinstance(node, ast.Assign)}
        for node in ast.walk(tree):
            if not _is_call_of_re(node):
                continue
            where = f"{path.relative_to(ROOT)}:{node.lineno}"
            try:
                values = [eval(ast.unparse(argument), dict(names)) for argument in node.args[:1]]
            except NameError:
                assert str(path.relative_to(ROOT)) in AT_RUN_TIME, f"{where}: list its expression in `made`"
                continue
            name = _name(assigned.get(id(node)))
            methods = uses.get((path, name)) or uses.get((None, name), set())
            methods = methods if node.func.attr == "compile" else {node.func.attr}
            yield Found(where, values[0], _flags(node, names), not methods or bool(methods & SEARCHES),
                        methods == {"fullmatch"})  # fmt: skip


def _is_call_of_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in FUNCTIONS
    )


def _flags(node: ast.Call, names: dict[str, Any]) -> int:
    texts = [ast.unparse(a) for a in [*node.args, *(k.value for k in node.keywords)] if "re." in ast.unparse(a)]
    return sum(int(eval(text, dict(names))) for text in texts if re.fullmatch(r"(?:re\.[A-Z]+[ |]*)+", text))


def _name(target: ast.AST | None) -> str:
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""


def _uses() -> dict[tuple[Path | None, str], set[str]]:
    """The methods that are called on each name, by file, and in all files (None)."""
    found: dict[tuple[Path | None, str], set[str]] = {}
    for path in SOURCES:
        for name, method in re.findall(r"\b(\w+)\.(\w+)\b", path.read_text()):
            if method in FUNCTIONS:
                found.setdefault((path, name), set()).add(method)
                found.setdefault((None, name), set()).add(method)
    return found


def _names(path: Path) -> dict[str, Any]:
    """The names of a module; only `re` for a program that needs a framework."""
    try:
        return vars(importlib.import_module(_module(path)))
    except ImportError:
        return {"re": re}


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    start = next(place for place, part in enumerate(parts) if part.startswith("llmbx"))
    return ".".join(part for part in parts[start:] if part != "__init__")
