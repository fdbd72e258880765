"""Reports as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.cli.output import to_csv
from llmbx.config.install import Install
from llmbx.errors import UsageError
from llmbx.model import Reference, RunSpec
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import pretty
from llmbx_analysis.report.build import Report, build
from llmbx_analysis.report.markdown import escape, render
from llmbx_analysis.report.rows import COLUMNS, rows

from ....golden import Golden
from ....run_factory import RunFactory, Toy
from .conftest import Command, Reporter

VERSION = "1.2.3"
"""The version in golden files, which does not depend on the release."""


def steady(mean: float) -> list[float]:
    """Deterministic step times: a slow start, then a small regular variation."""
    return [4 * mean, *(mean * (1 + 0.01 * ((k * 7) % 5 - 2)) for k in range(1, 50))]


def page(report: Report) -> str:
    """The report as Markdown, with the folder of the test replaced."""
    return portable(render(report.replace(llmbx_version=VERSION)))


def portable(text: str) -> str:
    """The text with the install of the test replaced."""
    return re.sub(r"/[^\s\"]+/install/", "/install/", text)


def short(value: Any, indent: int = 0) -> str:
    """A value as JSON, with a list or object in one line if its members are plain or the line is short."""
    text = json.dumps(value, ensure_ascii=False)
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if len(text) < 100 or not any(isinstance(member, dict | list) and member for member in members):
        return text
    names = [f"{json.dumps(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    margin = " " * (indent + 1)
    lines = [f"{margin}{name}{short(member, indent + 1)}" for name, member in zip(names, members, strict=True)]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([first, ",\n".join(lines), " " * indent + last])


@pytest.fixture
def one(tmp_path: Path, spec: RunSpec, plugins: Plugins, toy: Toy, row: Reference) -> Callable[[], Report]:
    """`one()`: the report on a run that has a baseline and, from then on, a published row; in an install of its own."""

    def make() -> Report:
        toy.references = (row,)
        install = Install(root=str(tmp_path / "one" / "install"), origin="test")
        runs = RunFactory(install, spec)
        runs.put(steady(0.9), tags=("accepted",), record={"versions": {"torch": "2.7.0"}})
        report = Reporter(install, plugins).report(runs.put(steady(1.03), result={"user": None}), baseline="accepted")
        return report.replace(llmbx_version=VERSION)

    return make


def test_one_run(one: Callable[[], Report], golden: Golden) -> None:
    report = one()
    golden("one.md", page(report))
    text = portable(pretty(report).decode())
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    golden("one.json", short(json.loads(text)) + "\n")


def test_a_failed_run(run_factory: RunFactory, reporter: Reporter, one: Callable[[], Report], golden: Golden) -> None:
    cause = "rank 3: torch.OutOfMemoryError: tried to allocate | 9 GiB <b>"
    run = run_factory.put(steady(1.0)[:9], valid=False, result={"status": "out_of_memory", "cause": cause})
    failed = page(reporter.report(run))
    golden("failed.md", failed, like={"one.md": page(one())})


def test_several_scales_with_repeats(
    run_factory: RunFactory, reporter: Reporter, one: Callable[[], Report], golden: Golden
) -> None:
    runs = [run_factory.put(steady(1.0 + 0.01 * k), gpus=8) for k in range(3)]
    runs += [run_factory.put(steady(0.55), gpus=16), run_factory.put(steady(0.35), gpus=32)]
    runs.append(run_factory.put(steady(1.0)[:5], gpus=64, valid=False, result={"cause": "rank 0: gone"}))
    found = reporter.cells(*runs)
    scaling = page(build(found))
    golden("scaling.csv", to_csv(rows(found), COLUMNS))
    golden("scaling.md", scaling, like={"one.md": page(one())})


@given(st.text())
def test_text_in_markdown_tables_is_escaped(text: str) -> None:
    safe = escape(text)
    assert "\n" not in safe
    bare = safe.replace("\\\\", "").replace("\\|", "").replace("\\<", "").replace("\\`", "")
    assert not {"|", "<", "`"} & set(bare)


def test_formats_of_the_command_agree(run_factory: RunFactory, command: Command, tmp_path: Path) -> None:
    run = run_factory.put(steady(1.0))
    found = json.loads(command(run.record.run_id, "--format", "json").stdout)
    (table,) = csv.DictReader(io.StringIO(command("last", "--format", "csv").stdout))
    assert found["results"][0]["step_time_s"]["mean"] == pytest.approx(float(table["step_time_s"]))
    assert table["verdict"] == found["verdicts"][0]["word"] == "valid"
    assert table["run_ids"] == run.record.run_id
    assert not (Path(run.folder) / "report.html").exists(), "a page was not asked for"


def test_the_page_is_written_to_the_run_or_the_given_path(
    run_factory: RunFactory, command: Command, tmp_path: Path
) -> None:
    run = run_factory.put(steady(1.0))
    said = command("last").stdout
    assert said.startswith("line 1b bf16 on 8 x h100: completed, valid")
    assert said.rstrip().endswith(str(Path(run.folder) / "report.html"))
    assert (Path(run.folder) / "report.html").read_text().startswith("<!doctype html>")
    command("last", "--html", str(tmp_path / "new" / "there.html"))
    assert (tmp_path / "new" / "there.html").is_file()


@pytest.mark.parametrize("option", ["--html", "--svg"])
def test_the_path_of_an_output_file_is_not_empty(option: str, command: Command) -> None:
    with pytest.raises(UsageError, match=f"{option} '': expected a path"):
        command("last", option, "")


def test_a_page_beside_another_format_leaves_stdout_to_the_format(
    run_factory: RunFactory, command: Command, tmp_path: Path
) -> None:
    run_factory.put(steady(1.0))
    done = command("last", "--format", "json", "--html", str(tmp_path / "page.html"))
    assert json.loads(done.stdout)["verdicts"] and "page.html" in done.stderr
    assert (tmp_path / "page.html").is_file()


def test_a_folder_selects_the_runs_in_it(
    run_factory: RunFactory, command: Command, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for gpus in (8, 16):
        run_factory.put(steady(8 / gpus), gpus=gpus)
    said = command(install.root).stdout
    assert said.count("valid") == 2 and "llmbx-report.html" in said
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no runs in this folder"):
        command(str(tmp_path / "empty"))


def test_repeats_of_the_same_command_are_included(run_factory: RunFactory, command: Command) -> None:
    runs = [run_factory.put(steady(1.0 + k / 100), record={"group": "g1"}) for k in range(3)]
    (all_,) = csv.DictReader(io.StringIO(command(runs[1].record.run_id, "--format", "csv").stdout))
    (one,) = csv.DictReader(io.StringIO(command(runs[1].record.run_id, "--single", "--format", "csv").stdout))
    assert (all_["runs"], one["runs"]) == ("3", "1")


def test_drawings_are_files_linked_by_markdown(run_factory: RunFactory, command: Command, tmp_path: Path) -> None:
    run_factory.put(steady(1.0))
    said = command("last", "--format", "markdown", "--svg", str(tmp_path / "plots")).stdout
    files = sorted(path.name for path in (tmp_path / "plots").iterdir())
    assert files == ["measured-distribution.svg", "measured-loss.svg", "measured-step-time.svg"]
    assert all(f"](<{tmp_path / 'plots' / name}>)" in said for name in files)


def test_a_failed_run_is_printed_on_the_terminal(run_factory: RunFactory, command: Command) -> None:
    run_factory.put(steady(1.0)[:5], valid=False, result={"cause": "rank 0: gone"})
    said = command("last").stdout
    assert "failed" in said.splitlines()[0] and "rank 0: gone" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "no run 'nothing'"),
        (("last", "--window", "x"), "window"),
        (("last", "--tolerance", "x"), "tolerance"),
    ],
)
def test_usage_errors_are_one_line(
    run_factory: RunFactory, command: Command, arguments: tuple[str, ...], message: str
) -> None:
    run_factory.put(steady(1.0))
    with pytest.raises(UsageError, match=message) as caught:
        command(*arguments)
    assert "\n" not in str(caught.value)
