"""Loading of broken third-party plugins: each is reported and does not affect the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.plugins.manager import Plugins

from .conftest import Llmbx, Package

EMPTY = """
from llmbx import hookimpl

@hookimpl
def register_workloads():
    return []
"""


def test_of_two_plugins_with_one_name_the_first_is_kept(package: Package, loaded: Callable[[], Plugins]) -> None:
    package("other", EMPTY, plugins=("nemo",))
    found = loaded()
    errors = [(info.distribution, info.error) for info in found.infos if info.name == "nemo"]
    ours = next(info for info in found.infos if info.name == "nemo" and info.distribution == "llmbx")
    assert sorted(errors) == [
        ("llmbx", None), ("llmbx-other", f"the name 'nemo' is taken by llmbx {ours.version}"),
    ]  # fmt: skip
    assert any(workload.plugin == "nemo" for workload in found.workloads)


@pytest.mark.parametrize("code", ["import sys; sys.exit(3)", EMPTY.replace("return []", "raise SystemExit(3)")])
def test_a_plugin_that_exits_is_disabled(package: Package, loaded: Callable[[], Plugins], code: str) -> None:
    package("leaver", code)
    found = loaded()
    assert found.workloads
    (info,) = found.broken
    assert info.name == "leaver" and "SystemExit: 3" in str(info.error)


def test_output_of_a_plugin_is_not_part_of_stdout(package: Package, llmbx: Llmbx) -> None:
    package("chatty", "print('at import')\n" + EMPTY.replace("return []", "print('in a hook'); return []"))
    done = llmbx("list", "--format", "json")
    assert json.loads(done.stdout)
    assert "at import" in done.stderr and "in a hook" in done.stderr


def test_tracebacks_are_printed_on_request(package: Package, llmbx: Llmbx) -> None:
    package("import", "1 / 0")
    package("hook", EMPTY.replace("return []", "1 / 0"))
    plain, debug = llmbx("list"), llmbx("list", LLMBX_DEBUG="1")
    assert plain.returncode == debug.returncode == 0 and plain.stdout == debug.stdout
    assert plain.stderr.count("ZeroDivisionError") == 2 and "Traceback" not in plain.stderr
    for name in ("import", "hook"):
        assert f"'{name}'" in plain.stderr and f"third_{name}.py" in debug.stderr
    assert debug.stderr.count("Traceback") == 2


ARGUMENTS = """
from llmbx import hookimpl

@hookimpl
def {definition}:
    {body}
"""


WRONG = {
    "build_command(spec, img)":
        "build_command: the hook has no argument 'img' (did you mean 'image'?); its arguments are spec, image",
    "build_command(configuration)": "no argument 'configuration'; its arguments are spec, image",
    "register_workloads(spec)": "register_workloads: the hook has no argument 'spec'; it has none",
    "build_command(spec, *, img)": "build_command: the hook has no argument 'img'",
    "build_comand(spec)": "unknown hook 'build_comand' (did you mean 'build_command'?)",
}  # fmt: skip
"""Definitions of hooks, and what is said of them."""


def test_a_wrong_argument_is_named(package: Package, llmbx: Llmbx) -> None:
    for number, definition in enumerate(WRONG):
        package(f"odd{number}", ARGUMENTS.format(definition=definition, body="pass"))
    listed, rows = llmbx("list"), json.loads(llmbx("plugins", "--format", "json").stdout)
    assert listed.returncode == 0 and listed.stderr.count("\n") == len(WRONG)
    for number, says in enumerate(WRONG.values()):
        name = f"odd{number}"
        (line,) = (line for line in listed.stderr.splitlines() if f"'{name}'" in line)
        assert f"plugin '{name}' (llmbx-{name}) cannot be loaded" in line and says in line
        (row,) = (row for row in rows if row["name"] == name)
        assert says in row["status"]


def test_a_wrapper_without_a_yield_and_arguments_with_defaults(package: Package, loaded: Callable[[], Plugins]) -> None:
    package("flat", ARGUMENTS.replace("@hookimpl", "@hookimpl(wrapper=True)").format(
        definition="build_command(spec)", body="return None"))  # fmt: skip
    package("defaults", ARGUMENTS.format(definition="build_command(spec, extra=1)", body="pass"))
    errors = {info.name: info.error for info in loaded().infos}
    assert errors["flat"] == "build_command: a hook wrapper must be a generator with exactly one yield"
    assert errors["defaults"] is None


INVALID = "the entry point evil = 'evil:not an attribute' is not a reference, expected MODULE or MODULE:ATTRIBUTE"


def test_an_entry_point_that_is_no_reference_is_one_line(package: Package, llmbx: Llmbx, site: Path) -> None:
    package("evil", verbs=("evil",))
    file = site / "third_evil-1.0.dist-info/entry_points.txt"
    file.write_text("[llmbx]\nevil = evil:not an attribute\n[llmbx.commands]\nevil = evil:not an attribute\n")
    listed = llmbx("list")
    assert listed.returncode == 0
    assert listed.stderr == f"llmbx: plugin 'evil' (llmbx-evil) cannot be loaded: {INVALID}\n"
    assert any(INVALID in row["status"] for row in json.loads(llmbx("plugins", "--format", "json").stdout))
    assert INVALID in llmbx("plugins", "check", "evil").stdout
    assert "(cannot be loaded)" in llmbx("--help").stdout
    verb = llmbx("evil")
    assert verb.returncode == 2 and verb.stderr.endswith(f"{INVALID}\n") and verb.stderr.count("\n") == 1


def test_a_folder_whose_entry_point_is_no_reference_is_one_line(tmp_path: Path, llmbx: Llmbx) -> None:
    folder = tmp_path / "evil"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[project.entry-points.llmbx]\nevil = "evil:not an attribute"\n')
    listed = llmbx("list", LLMBX_PLUGINS=str(folder))
    assert listed.returncode == 0 and INVALID in listed.stderr and listed.stderr.count("\n") == 1
    checked = llmbx("plugins", "check", str(folder))
    assert checked.returncode == 1 and INVALID in checked.stdout and "Traceback" not in checked.stderr
