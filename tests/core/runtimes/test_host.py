"""The host runtime uses the configured Python and reports if it does not work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx.model import Image, ImageRequest, ImageSource, RunSpec
from llmbx.runtimes.base import Offer
from llmbx.runtimes.host import HostRuntime


def prepare(tmp_path: Path) -> tuple[str, dict[str, str]]:
    image = HostRuntime().prepare(ImageRequest(), tmp_path, lambda line: None)
    return image.python, image.versions


def test_the_configured_python_is_used_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMBX_PYTHON", sys.executable)
    assert prepare(tmp_path) == (sys.executable, {"python": sys.version.split()[0]})
    assert HostRuntime().check(tmp_path) is None


def test_a_python_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMBX_PYTHON", "/nowhere/python")
    with pytest.raises(InfraError, match="LLMBX_PYTHON=/nowhere/python is not an executable"):
        prepare(tmp_path)
    assert HostRuntime().check(tmp_path) is not None


def test_without_any_python_it_is_not_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLMBX_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert HostRuntime().available() == "python3 is not on PATH; set LLMBX_PYTHON"


def test_the_error_message_of_a_failing_python_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\necho 'python3: command not found in this version' >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("LLMBX_PYTHON", str(broken))
    with pytest.raises(InfraError, match="does not run: python3: command not found in this version"):
        prepare(tmp_path)


def test_it_offers_itself_only_if_a_python_is_configured(
    make_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLMBX_PYTHON", raising=False)
    host = HostRuntime()
    assert host.offers(make_spec(), ImageRequest()) is None
    monkeypatch.setenv("LLMBX_PYTHON", "python3")
    assert host.offers(make_spec(), ImageRequest(reference="x")) == Offer(rank=0, reason="LLMBX_PYTHON is set")
    of_recipe = make_spec(image=ImageSource(reference="x", source="the guide"))
    assert host.offers(of_recipe, ImageRequest()) is not None, "llmbx runs inside the recipe's image"
    assert host.offers(make_spec(image=ImageSource(reference="x", source="--image")), ImageRequest()) is None


def test_a_preview_names_the_python_without_starting_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMBX_PYTHON", "/nowhere/python")
    image = Image(kind="host", reference="host", python="/nowhere/python")
    assert HostRuntime().plan(ImageRequest(), tmp_path) == image
    monkeypatch.delenv("LLMBX_PYTHON")
    assert HostRuntime().plan(ImageRequest(), tmp_path).python == "python3"


def test_without_a_configured_python_it_is_the_one_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLMBX_PYTHON", raising=False)
    (tmp_path / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert prepare(tmp_path)[0] == str(tmp_path / "python3")


def test_the_version_is_not_changed_by_the_users_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start-up module that prints something is not run."""
    (tmp_path / "sitecustomize.py").write_text("print('hello')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("LLMBX_PYTHON", sys.executable)
    assert prepare(tmp_path)[1] == {"python": sys.version.split()[0]}


def test_a_python_that_fails_without_a_word_is_reported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = tmp_path / "python3"
    silent.write_text("#!/bin/sh\nexit 1\n")
    silent.chmod(0o755)
    monkeypatch.setenv("LLMBX_PYTHON", str(silent))
    finding = HostRuntime().check(tmp_path)
    assert finding is not None and not finding.warning
    assert finding.problem == f"runtime host: {silent} does not run: no error message"
    assert finding.fix == "install python3 or set LLMBX_PYTHON"
