"""Formats of verdicts that third-party plugins add."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.cli.cases import Case, print_cases
from llmbx.cli.output import case_formats
from llmbx.errors import PluginError

from .conftest import Llmbx, Package

TAP = """
def render(name, cases):
    if not cases:
        raise KeyError("no case")
    return "".join(f"{name}: {case.outcome} {case.name}: {case.message}\\n" for case in cases)
"""


@pytest.fixture
def tap(package: Package, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package("tap", TAP, plugins=(), formats=("tap",))
    monkeypatch.syspath_prepend(site)


@pytest.mark.usefixtures("tap")
def test_a_format_gets_the_cases_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert "tap" in case_formats()
    case = Case(name="cell \x1b[31m", about="line", outcome="failure", type="slower", message="slower\x07")
    print_cases("tap", "llmbx sweep", [case])
    assert capsys.readouterr().out == "llmbx sweep: failure cell \\x1b[31m: slower\\x07\n"


@pytest.mark.usefixtures("tap")
def test_a_format_that_fails_is_one_line() -> None:
    with pytest.raises(PluginError, match=r"^the format tap \(third_tap:render\) failed: KeyError: 'no case' \("):
        print_cases("tap", "llmbx run", [])


def test_a_format_is_a_value_of_the_option(package: Package, llmbx: Llmbx) -> None:
    package("tap", TAP, plugins=(), formats=("tap",))
    for verb in ("run", "sweep", "compare"):
        assert "tap" in llmbx(verb, "--help").stdout
    refused = llmbx("run", "--plugin", "nemo", "grok1", "--dry-run", "--format", "tap")
    assert refused.returncode == 2
    assert refused.stderr == (
        "llmbx: --format tap cannot be combined with --dry-run or --emit-script: there is no result to report\n"
    )
