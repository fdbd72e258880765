"""llmbx as a wheel in a plain environment, with third parties' wheels beside it: good, broken, contradicting."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from .wheels import build_wheel

ROOT = Path(__file__).parents[2]
Llmbx = Callable[..., subprocess.CompletedProcess[str]]

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0"

[project.entry-points.llmbx]
{entry} = "{module}"

[tool.hatch.build.targets.wheel]
packages = ["{module}"]
"""


def package(folder: Path, name: str, entry: str, code: str) -> Path:
    """A package with one module, which is a plugin."""
    module = name.replace("-", "_")
    (folder / module).mkdir(parents=True)
    (folder / module / "__init__.py").write_text(textwrap.dedent(code))
    (folder / "pyproject.toml").write_text(PYPROJECT.format(name=name, entry=entry, module=module))
    return folder


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with llmbx's wheel and four third parties'; returns its bin folder."""
    folder = tmp_path_factory.mktemp("stranger")
    sources = [
        ROOT,
        ROOT / "tests/fixtures/toy",
        package(folder / "a", "llmbx-broken", "brokenone", "import a_module_that_is_not_there\n"),
        package(
            folder / "b",
            "llmbx-typo",
            "typo",
            """
            from llmbx import hookimpl

            @hookimpl
            def register_workload():
                return []
            """,
        ),
        package(
            folder / "c",
            "llmbx-clash",
            "clash",
            """
            import llmbx_toy.plugin as toy
            from llmbx import hookimpl

            @hookimpl
            def register_workloads():
                return toy.register_workloads()
            """,
        ),
    ]
    wheels = [build_wheel(source, folder / "wheels") for source in sources]
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [folder / "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *wheels], check=True)
    return folder / "venv/bin"


@pytest.fixture
def run(stranger: Path, tmp_path: Path) -> Llmbx:
    """The command of that environment."""

    def call(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LLMB_INSTALL": str(tmp_path / "install"), **env}
        return subprocess.run(
            [stranger / "llmbx", *arguments], env=environ, capture_output=True, text=True, check=False
        )

    return call


def test_it_pulls_neither_torch_nor_jax_nor_pytest(stranger: Path) -> None:
    done = subprocess.run(
        [stranger / "python", "-m", "pip", "list", "--format", "json"], capture_output=True, check=True
    )
    names = {item["name"].lower() for item in json.loads(done.stdout)}
    assert {"llmbx", "llmbx-toy", "click", "pluggy"} <= names
    assert not names & {"torch", "jax", "jaxlib", "pandas", "transformers", "megatron-core", "maxtext", "pytest"}


def test_a_third_partys_framework_runs(run: Llmbx) -> None:
    done = run("run", "--plugin", "toy", "line")
    assert done.returncode == 0, done.stderr
    assert "completed" in done.stdout and "step time" in done.stdout


def test_plugins_are_listed_with_versions_hooks_and_origins(run: Llmbx) -> None:
    found = {row["name"]: row for row in json.loads(run("plugins", "--format", "json").stdout)}
    assert found["toy"]["distribution"] == "llmbx-toy" and found["toy"]["version"] == "0.3.0"
    assert found["toy"]["status"] == "ok" and "build_command" in found["toy"]["hooks"]
    assert {"nemo", "local", "slurm", "containers", "venv"} <= found.keys()


def test_a_broken_plugin_is_named_and_takes_nobody_down(run: Llmbx) -> None:
    found = {row["name"]: row for row in json.loads(run("plugins", "--format", "json").stdout)}
    assert "a_module_that_is_not_there" in found["brokenone"]["status"]
    assert "did you mean 'register_workloads'" in found["typo"]["status"]
    listed = run("list")
    assert listed.returncode == 0 and "grok1" in listed.stdout
    assert "plugin 'brokenone' (llmbx-broken) cannot be loaded" in listed.stderr and "Traceback" not in listed.stderr


def test_a_name_that_two_plugins_claim_needs_a_choice(run: Llmbx) -> None:
    done = run("show", "line")
    assert done.returncode == 2
    assert "'line' is claimed by the plugins clash and toy; choose one with --plugin" in done.stderr
    assert run("show", "--plugin", "toy", "line").returncode == 0
    assert run("show", "toy", "line").returncode == 0


def test_every_hook_call_can_be_traced(run: Llmbx) -> None:
    done = run("show", "--plugin", "toy", "line", LLMBX_TRACE_HOOKS="1")
    assert "hook compute_flops(spec) -> toy" in done.stderr and "hook compute_flops <- Flops" in done.stderr
    assert "hook compute_flops" not in run("show", "--plugin", "toy", "line").stderr


def test_every_documented_hook_of_a_run_is_really_called(run: Llmbx) -> None:
    done = run("run", "--plugin", "toy", "line", LLMBX_TRACE_HOOKS="1")
    for hook in ("register_workloads", "register_runtimes", "register_launchers", "check_spec", "prepare_image",
                 "build_command", "parse_log", "compute_flops"):  # fmt: skip
        assert f"hook {hook}(" in done.stderr, hook


def test_help_imports_no_verb_and_no_plugin(stranger: Path) -> None:
    code = textwrap.dedent("""
        import sys
        from llmbx.cli.main import main
        sys.argv = ["llmbx", "--help"]
        try:
            main()
        except SystemExit:
            heavy = ("llmbx_", "llmbx.cli.", "msgspec")
            print(sorted(m for m in sys.modules if m.startswith(heavy)), file=sys.stderr)
    """)
    done = subprocess.run([stranger / "python", "-c", code], capture_output=True, text=True, check=True)
    assert "Run a workload" in done.stdout
    assert done.stderr.strip() == "['llmbx.cli.main', 'llmbx.cli.streams']"
