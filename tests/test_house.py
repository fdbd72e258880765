"""The rules of the house: lint, types, who may import whom, sizes of modules and functions."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("core/**/*.py"), *ROOT.glob("plugins/**/*.py")])
FRAMEWORKS = {"fiddle", "jax", "lightning", "megatron", "nemo", "nemo_run", "nvtx", "packaging", "torch"}
ENTRIES = [path for path in SOURCES if path.parent.name == "entry"]
PACKAGES = ["core/llmbx", *(str(p.relative_to(ROOT)) for p in sorted(ROOT.glob("plugins/*/llmbx_*")))]


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *argv], cwd=ROOT, capture_output=True, text=True, check=False)


def test_lint() -> None:
    done = run("ruff", "check", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_format() -> None:
    done = run("ruff", "format", "--check", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_types() -> None:
    done = run("mypy", *PACKAGES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_import_rules() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("source", ENTRIES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_runs_inside_an_image_needs_neither_llmbx_nor_a_new_python(source: Path) -> None:
    """It imports the standard library, frameworks, what travels with it, and its own folder."""
    tree = ast.parse(source.read_text(), feature_version=(3, 10))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    there = sys.stdlib_module_names | FRAMEWORKS
    own = ("llmbx.entry", f"{source.parent.parent.name}.entry")
    assert [name for name in imported if name.split(".")[0] not in there and not name.startswith(own)] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_long(source: Path) -> None:
    assert len(source.read_text().splitlines()) <= 500


def test_nearly_all_modules_and_functions_are_small() -> None:
    long_modules = [path for path in SOURCES if len(path.read_text().splitlines()) > 350]
    assert len(long_modules) <= len(SOURCES) / 10, long_modules
    sizes = [
        (node.end_lineno - node.lineno + 1, f"{path.relative_to(ROOT)}:{node.name}")
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    ]
    assert [item for item in sizes if item[0] > 60] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_text_files_are_utf_8_whatever_the_locale(source: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Call)]
    found = [call.lineno for call in calls if _opens_text(call) and "encoding" not in [k.arg for k in call.keywords]]
    assert found == [], f'{source}: say encoding="utf-8" in these lines'


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_tools_say_in_another_encoding_is_read_all_the_same(source: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Call)]
    names = [(call.lineno, {keyword.arg for keyword in call.keywords}) for call in calls]
    found = [line for line, given in names if "text" in given and "capture_output" in given and "errors" not in given]
    assert found == [], f'{source}: say errors="replace" in these lines'


def test_only_the_codec_lets_msgspec_describe_a_type() -> None:
    """Elsewhere two threads could do it at once, which ends the process."""
    typed = re.compile(r"msgspec\.convert\(|msgspec\.json\.Decoder\(|msgspec\.json\.decode\(.*type=")
    codec = ROOT / "core/llmbx/codec.py"
    found = [path for path in ROOT.glob("core/**/*.py") if path != codec and typed.search(path.read_text())]
    assert found == []


def _opens_text(call: ast.Call) -> bool:
    """Whether a file's text is read or written here; a mode that is no literal counts as text."""
    if not isinstance(call.func, ast.Attribute):
        return isinstance(call.func, ast.Name) and call.func.id == "open"
    owner = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
    if call.func.attr in ("read_text", "write_text"):
        return owner != "dist"  # a package's metadata: its method takes a name and nothing else
    if (
        call.func.attr not in ("open", "fdopen")
        or owner in ("tarfile", "gzip")
        or (owner, call.func.attr) == ("os", "open")
    ):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    modes = [node.value for node in given if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return not any("b" in mode for mode in modes)


def test_core_names_no_framework() -> None:
    """A framework's name in core is a bug: adding one must not touch core."""
    words = ("megatron", "maxtext", "nemo", "torchtitan")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in ROOT.glob("core/**/*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if any(word in line.lower() for word in words) and not _is_example(line)
    ]
    assert found == []


def _is_example(line: str) -> bool:
    """Help texts may show a command, a GPU image or a catalog name as an example."""
    return "llmbx " in line or "nvidia/nemo" in line or "nvidia+nemo" in line
