"""`llmbx image export`: errors for bundles that cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from llmbx.errors import InfraError, UsageError
from llmbx_containers import cli


def test_a_bundle_needs_a_folder_that_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    missing = CliRunner().invoke(cli.export, [str(tmp_path / "x" / "y.bundle")])
    assert isinstance(missing.exception, UsageError)
    assert f"y.bundle: folder {tmp_path}/x does not exist: create it" in str(missing.exception)

    refused = CliRunner().invoke(cli.export, ["/proc/y.bundle"])
    assert isinstance(refused.exception, InfraError)
    assert str(refused.exception).startswith("/proc/y.bundle could not be written: ")
