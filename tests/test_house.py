"""The rules of the code: lint, format, types, imports, and what core may name. `make lint` runs this file alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PACKAGES = ["core/llmbx", *(str(p.relative_to(ROOT)) for p in sorted(ROOT.glob("plugins/*/llmbx_*")))]
ENTRIES = sorted(path for path in ROOT.glob("*/**/llmbx*/entry/*.py") if path.parts[len(ROOT.parts)] != "tests")
FRAMEWORKS = {"fiddle", "jax", "lightning", "megatron", "nemo", "nemo_run", "nvtx", "packaging", "torch", "torchtitan",
              "transformers"}  # fmt: skip

PLUGINS = re.compile(
    r"megatron|maxtext|nemo|torchtitan|slurm|sbatch|srun|squeue|docker|apptainer|singularity|enroot|pyxis|nsys|nsight|"
    r"nccltrace|xplane",
    re.IGNORECASE,
)
"""Names of frameworks, schedulers, container tools and profilers."""

MAY_NAME = (
    "core/llmbx/model/run_folder.py",  # names of files in a run's folder
    "core/llmbx/model/launch.py",  # the variables by which schedulers tell a rank its number
    "core/llmbx/entry/secrets.py",  # variables of container tools that only look like secrets
    "core/llmbx/entry/secret_shapes.py",  # services whose tokens and log-ins are recognized
)


def complaints(*argv: str) -> str:
    """What a tool reports; empty if it is content."""
    done = subprocess.run([sys.executable, "-m", *argv], cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{done.stdout}{done.stderr}exit code {done.returncode}"


def test_lint() -> None:
    assert complaints("ruff", "check", ".") == ""


def test_format() -> None:
    assert complaints("ruff", "format", "--check", ".") == ""


def test_types() -> None:
    assert complaints("mypy", *PACKAGES) == ""


def test_imports() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_core_has_at_most_twelve_levels_of_imports() -> None:
    """Imports inside functions count, too; those for type checkers do not."""
    graph = grimp.build_graph("llmbx", cache_dir=None, exclude_type_checking_imports=True)
    levels: dict[str, int] = {}

    def level(module: str) -> int:
        if module not in levels:
            levels[module] = 0  # a circle ends here
            below = graph.find_modules_directly_imported_by(module)
            levels[module] = 1 + max(map(level, sorted(below)), default=0)
        return levels[module]

    assert max(map(level, sorted(graph.modules))) <= 12


def test_what_runs_inside_an_image_needs_neither_llmbx_nor_a_new_python() -> None:
    """It parses as Python 3.10, and imports the standard library, frameworks, and what travels with it."""
    allowed = sys.stdlib_module_names | FRAMEWORKS
    wrong = []
    assert ENTRIES
    for path in ENTRIES:
        tree = ast.parse(path.read_text(), feature_version=(3, 10))
        imported = {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
        own = ("llmbx.entry", f"{path.parent.parent.name}.entry")
        wrong += [(path.name, name) for name in imported if name.split(".")[0] not in allowed
                  and not name.startswith(own)]  # fmt: skip
    assert wrong == []


def test_the_tests_of_core_import_no_plugin() -> None:
    """The toy is a third party's, made for the tests."""
    plugin = re.compile(r"^\s*(?:from|import) llmbx_(?!toy\b)", re.MULTILINE)
    paths = [path for path in sorted(ROOT.glob("tests/core/**/*.py")) if plugin.search(path.read_text())]
    assert paths == []


def test_core_names_nothing_that_a_plugin_is() -> None:
    """Examples of commands in help texts may name workloads and plugins: they are what a user types."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted([*ROOT.glob("core/**/*.py"), *ROOT.glob("core/**/*.sh")])
        if str(path.relative_to(ROOT)) not in MAY_NAME
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PLUGINS.search(line) and not line.lstrip().startswith("llmbx ")
    ]
    assert found == []
