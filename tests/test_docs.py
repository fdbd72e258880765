"""The generated pages say what the code says."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import llmbx.api
import llmbx.testing
from llmbx import hookspecs, model
from llmbx.cli.main import EPILOG
from llmbx.errors import InfraError, LlmbxError, PluginError, RunFailed, UsageError
from llmbx.history.columns import COLUMNS, Entry
from llmbx.launchers.base import Launcher
from llmbx.logs import signatures
from llmbx.model import Result
from llmbx.plugins.discovery import HOOKS
from llmbx.run.infrastructure import CONNECTING, ECHOES
from llmbx.run.verdict import PRIORITY
from llmbx.runtimes.base import Runtime
from llmbx.testing.typed import public

ROOT = Path(__file__).parents[1]


def test_the_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, ROOT / "docs/generate.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_says_when_what_and_how(name: str) -> None:
    text = inspect.getdoc(getattr(hookspecs, name)) or ""
    assert "When:" in text, "when it is called"
    assert "Called for" in text, "which plugins it is called for"
    assert f"def {name}(" in text, "an example"


def test_the_page_of_hooks_has_every_hook_and_argument() -> None:
    page = (ROOT / "docs/hooks.md").read_text()
    for name in HOOKS:
        section = page.split(f"## {name}\n")[1].split("\n## ")[0]
        for argument in inspect.signature(getattr(hookspecs, name)).parameters:
            assert re.search(rf"\b{argument}\b", section), f"{name}: {argument}"


def test_the_audit_of_the_example_says_what_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/published.md").read_text()
    example = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "my_cluster.toml").write_text(example[0])
    command = [Path(sys.executable).with_name("llmbx"), "audit", "my_cluster.toml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    printed = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line]
    shown = page.split("$ llmbx audit my_cluster.toml\n")[1].split("\n\nA figure is disputed")[0]
    assert [line.strip() for line in shown.splitlines() if line.strip()] == printed


@pytest.mark.parametrize("page", sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]), ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_the_page_of_values_has_every_record_of_the_model_that_a_plugin_meets() -> None:
    """What the model has beside them is the result's, or core's own."""
    page = (ROOT / "docs/values.md").read_text()
    own = {"Result", "Reference", "Example", "Owner", "Value"}
    records = {name for name, kind in vars(model).items() if isinstance(kind, type) and name not in own}
    assert records <= set(re.findall(r"^### (\w+)$", page, re.MULTILINE))


def test_the_page_of_values_explains_every_kind_of_event_that_core_judges_by() -> None:
    page = (ROOT / "docs/values.md").read_text()
    explained = re.findall(r"^- `(\w+)`: ", page.split("### Kinds of event")[1].split("\n## ")[0], re.MULTILINE)
    assert explained[: len(PRIORITY)] == list(PRIORITY)
    found = re.findall(r'\("(\w+)", r"', inspect.getsource(signatures))
    assert {*CONNECTING, *ECHOES, *found} <= set(explained)


def headings() -> set[str]:
    """The names that have a heading on one of the pages for authors."""
    pages = [(ROOT / "docs" / f"{name}.md").read_text() for name in ("api", "values", "tools", "hooks")]
    return {name for page in pages for name in re.findall(r"^#{2,4} ([\w.]+)$", page, re.MULTILINE)}


@pytest.mark.parametrize("module", [llmbx.api, llmbx.testing], ids=lambda module: str(module.__name__))
def test_every_public_name_has_a_heading_with_text(module: types.ModuleType) -> None:
    names = {name for name in getattr(module, "__all__", dir(module)) if not name.startswith("__")}
    assert names - headings() == set()
    text = (ROOT / "docs/api.md").read_text()
    assert re.findall(r"^#{2,4} (.*)\n\n(?=#{2,4} )", text, re.MULTILINE) == []


OF_SECRETS = {"find_secrets", "secret_fields", "secret_shapes"}
ENTRY = [file for file in sorted((ROOT / "core/llmbx/entry").glob("[a-z]*.py")) if file.stem not in OF_SECRETS]


@pytest.mark.parametrize("file", ENTRY, ids=lambda file: file.stem)
def test_every_public_name_of_a_module_for_ranks_has_a_heading(file: Path) -> None:
    module = importlib.import_module(f"llmbx.entry.{file.stem}")
    own = {n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__ and n[0] != "_"}
    assert {f"{file.stem}.{name}" for name in own} - headings() == set()


@pytest.mark.parametrize("protocol", [Runtime, Launcher], ids=lambda p: p.__name__)
def test_every_member_of_an_interface_is_explained(protocol: type) -> None:
    page = (ROOT / "docs/tools.md").read_text().split(f"## {protocol.__name__}\n")[1].split("\n## ")[0]
    members, methods = public(protocol)
    for name in members:
        assert re.search(rf"^- `{name}` \(.*\): \w", page, re.MULTILINE), name
    for name in methods:
        assert re.search(rf"def {name}\(.*\n```\n\n\w", page), name


INTERNAL = {
    "LLMBX_API": "no variable: the version of `llmbx.api` that a plugin was made for",
    "LLMBX_ENCODED": "encoded values of variables that enroot would change",
    "LLMBX_UMASK": "the user's umask, on its way into a Docker container",
    "LLMBX_OWN_LIBRARIES": "what a program loads beside a lent profiler",
    "LLMBX_PROFILER_MARK": "that a profiled program began",
    "LLMBX_PROFILER_NVTX": "where a profiled program records its version of nvtx",
}
"""Variables that one part of llmbx hands to another, and that nobody else sets or reads."""


def test_every_variable_of_llmbx_is_in_the_guide() -> None:
    sources = [
        path
        for folder in ("core", "plugins")
        for path in (ROOT / folder).rglob("*")
        if path.suffix not in (".pyc", ".so", ".xz")
    ]
    text = "\n".join(path.read_text() for path in sources if path.is_file())
    used = set(re.findall(r"\bLLMBX_[A-Z0-9_]*[A-Z0-9]\b", text))
    tables = re.findall(r"^\| (`LLMBX_[^|]*) \|", (ROOT / "docs/guide.md").read_text(), re.MULTILINE)
    documented = {name for cell in tables for name in re.findall(r"LLMBX_\w+", cell)}
    assert used - documented == INTERNAL.keys()
    assert documented <= used


def test_the_page_of_the_architecture_says_what_the_code_says() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (layers,) = [c["layers"] for c in config["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    order = re.findall(r"^\| \d+ \| ((?:`\w+`(?:, )?)+) \|$", page.split("## The way of a request")[0], re.MULTILINE)
    assert [row.replace("`", "").replace(", ", " | ") for row in order] == layers
    for folder in ("resolve", "run"):
        text = page.split(f"file in `{folder}/`")[1].split("\n## ")[0]
        steps = re.findall(r"^\| \d+ \| `(\S+\.py)` \| (.*) \|$", text, re.MULTILINE)
        assert len(steps) <= 10
        for file, says in steps:
            source = (ROOT / "core/llmbx" / folder / file).read_text()
            for name in re.findall(r"`(\w+)`", says):
                assert re.search(rf"^(def|class) {name}\b", source, re.MULTILINE), f"{folder}/{file}: {name}"
        named = set(re.findall(r"`(\w+\.py)`", text))
        assert {path.name for path in (ROOT / "core/llmbx" / folder).glob("*.py")} - {"__init__.py"} <= named


def test_the_exit_codes_are_those_of_the_help_and_of_the_guide() -> None:
    pages = [(ROOT / "docs" / name).read_text().split("## Exit codes")[1] for name in ("interfaces.md", "guide.md")]
    listed = [re.findall(r"^\| (\d+) \|", page.split("\n## ")[0], re.MULTILINE) for page in pages]
    helped = re.findall(r"(?:^|[:;] ?)\s*(\d+) [a-z]", EPILOG.split("Exit codes")[1], re.MULTILINE)
    assert listed == [helped, helped]
    kinds = (LlmbxError, RunFailed, UsageError, InfraError, PluginError)
    assert {str(kind.exit_code) for kind in kinds} <= {*helped}


def test_the_page_of_interfaces_explains_every_command_with_json_and_every_column() -> None:
    page = (ROOT / "docs/interfaces.md").read_text()
    commands = (ROOT / "docs/commands.md").read_text().split("\n## llmbx ")[1:]
    for name, text in ((text.split("\n")[0], text.split("\n### ")[0]) for text in commands):
        if re.search(r"--format \[\S*json", text):
            assert re.search(rf"^\| `{name}` \| .*`json`.* \| [\w`]", page, re.MULTILINE), name
    for name in (*Result.__struct_fields__, *Entry.__struct_fields__, *COLUMNS):
        assert f"`{name}`" in page
