"""The generated pages say what the code says."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import llmbx.api
import llmbx.testing
from llmbx import hookspecs, model
from llmbx.logs.signature_table import signatures
from llmbx.logs.timeline import CONNECTING
from llmbx.plugins.discovery import HOOKS

ROOT = Path(__file__).parents[1]


def test_the_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, ROOT / "docs/generate.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


BEFORE = "VERSION 1.0\nllmbx.api.plural(n: int, word: str) -> str\nllmbx.api.Span.low: float\n"


def test_a_vanished_or_changed_line_of_the_surface_is_named(surface: types.ModuleType) -> None:
    now = BEFORE.replace("word: str", "word: str, many: str").replace("llmbx.api.Span.low: float\n", "")
    message = surface.broken(BEFORE, now)
    assert "llmbx.api.plural(n: int, word: str) -> str" in message
    assert "llmbx.api.Span.low: float" in message
    assert "increase the major version in llmbx.hookspecs.VERSION" in message


def test_the_surface_may_grow_and_change_with_the_major_version(surface: types.ModuleType) -> None:
    assert surface.broken(BEFORE, f"{BEFORE}llmbx.api.Span.high: float\n") == ""
    assert surface.broken(BEFORE, "VERSION 2.0\n") == ""
    assert surface.broken(BEFORE, "VERSION 1.1\n") != ""


def test_the_surface_has_signatures_fields_and_hooks(surface: types.ModuleType) -> None:
    lines = (ROOT / "docs/surface.txt").read_text().splitlines()
    assert lines[0] == f"VERSION {hookspecs.VERSION[0]}.{hookspecs.VERSION[1]}"
    assert "llmbx.api.Step.loss: float | None = None" in lines
    assert "llmbx.api.Launcher.cancel(self, job: Job, run_dir: Path) -> None @abstractmethod" in lines
    assert "llmbx.hookspecs.prepare_image(spec: RunSpec) -> ImageRequest | None @hookspec(firstresult=True)" in lines


@pytest.fixture
def surface(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("surface")


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_says_when_what_and_how(name: str) -> None:
    text = inspect.getdoc(getattr(hookspecs, name)) or ""
    assert "When:" in text, "when it is called"
    assert "Called for" in text, "which plugins it is called for"
    assert f"def {name}(" in text, "an example"


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
    assert {*CONNECTING, "exception", "interrupted", *(signature.kind for signature in signatures())} <= set(explained)


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
