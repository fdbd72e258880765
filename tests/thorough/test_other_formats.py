"""The faults of the unit tests in the log formats in which those do not try them."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.plugins.manager import Plugins, load

from ..plugins import test_faults, test_silent
from ..plugins.fault_cases import OTHER_FAULTS, OTHER_SILENT


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load()


@pytest.mark.parametrize(("name", "format_"), OTHER_FAULTS)
def test_a_fault_changes_the_verdict(name: str, format_: str, plugins: Plugins, tmp_path: Path) -> None:
    test_faults.changes_the_verdict(name, format_, plugins, tmp_path)


@pytest.mark.parametrize(("name", "format_"), OTHER_SILENT)
def test_a_fault_is_not_silent(name: str, format_: str, plugins: Plugins, tmp_path: Path) -> None:
    test_silent.is_not_silent(name, format_, plugins, tmp_path)
