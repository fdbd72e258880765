"""The definitions of images: golden files of what Docker and Apptainer build, made from one Dockerfile each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx_environments.containers.images.definition import apptainer_definition, dockerfile, rebased

CPU = {"PYTHON": "3.11", "ENVIRONMENT": "toy-cpu", "LOCK": "0123456789ab"}


def test_the_definitions_of_both_kinds_of_image(golden: Callable[[str, str], None]) -> None:
    texts = dockerfile("cpu", "docker.io#library/python:3.11-slim-bookworm", **CPU), dockerfile("gpu", "a.b#c/d:1")
    golden("definitions.txt", "\n".join(f"{text}\n{apptainer_definition(text)}" for text in texts))


@pytest.mark.parametrize(("suffix", "bootstrap"), [(".sif", "localimage"), (".tar", "docker-archive")])
def test_a_base_may_be_a_file(suffix: str, bootstrap: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    definition = apptainer_definition(dockerfile("cpu", f"./as my base{suffix}", **CPU))
    assert definition.startswith(f"Bootstrap: {bootstrap}\nFrom: {tmp_path}/as my base{suffix}\n")


def test_a_loaded_image_replaces_the_file_as_the_base() -> None:
    assert "\nFROM sha256:12\n" in rebased(dockerfile("gpu", "/images/x.tar"), "sha256:12")


def test_nothing_is_printed_about_a_build_context_that_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    apptainer_definition(dockerfile("cpu", "a.b/c:1", **CPU))
    assert capfd.readouterr() == ("", "")


def test_an_argument_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="LOCK"):
        dockerfile("cpu", "a.b/c:1", PYTHON="3.11", ENVIRONMENT="toy-cpu")
