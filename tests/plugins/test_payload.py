"""The programs of the frameworks' ranks find in the payload all that they import."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from llmbx.model import RunSpec
from llmbx.plugins.payload import payload_files


@pytest.mark.parametrize(
    ("package", "programs"), [("llmbx_nemo", ("train.py",)), ("llmbx_maxtext", ("train.py", "pgle.py"))]
)
def test_programs_find_all_that_they_import(
    package: str, programs: tuple[str, ...], make_spec: Callable[..., RunSpec]
) -> None:
    files = payload_files(make_spec(), package, programs)
    modules = {name.removeprefix("code/").removesuffix(".py").replace("/", ".") for name in files}
    sources = [ast.parse(content) for name, content in files.items() if name.endswith(".py")]
    wanted: set[str] = set()
    for node in (node for tree in sources for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)):
        if (node.module or "").endswith(".entry"):
            wanted |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif (node.module or "").startswith("llmbx"):
            wanted.add(str(node.module))
    assert wanted and wanted <= modules
