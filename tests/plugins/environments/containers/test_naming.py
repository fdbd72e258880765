"""Image references in the formats of Docker and enroot, and the paths of image files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.errors import UsageError
from llmbx_environments.containers.naming import file_name, image_file, parse_reference

SHA = "sha256:" + "ab12" * 16


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("nvcr.io#nvidia/nemo:25.04.01", "nvidia+nemo+25.04.01.sqsh"),
        ("nvcr.io#nvidia/nemo:25.04.00", "nvidia+nemo+25.04.00.sqsh"),
        ("docker://nvcr.io#nvidia/nemo:25.04.01", "nvidia+nemo+25.04.01.sqsh"),
        ("nvcr.io/nvidia/nemo:25.04.01", "nvidia+nemo+25.04.01.sqsh"),
        ("ghcr.io#nvidia/jax:maxtext-2024-12-09", "nvidia+jax+maxtext-2024.12.09.sqsh"),
        ("nvcr.io#nvidia/jax:25.01-maxtext-py3", "nvidia+jax+25.01-maxtext-py3.sqsh"),
        ("python:3.12", "python+3.12.sqsh"),
        ("python", "python+latest.sqsh"),
        (f"nvcr.io#nvidia/nemo@{SHA}", "nvidia+nemo+sha256.ab12ab12ab12.sqsh"),
    ],
)
def test_an_image_lies_where_the_recipes_put_it(reference: str, name: str) -> None:
    assert file_name(reference, ".sqsh") == name


@pytest.mark.parametrize(
    ("text", "docker", "enroot"),
    [
        ("nvcr.io#nvidia/nemo:25.04.01", "nvcr.io/nvidia/nemo:25.04.01", "nvcr.io#nvidia/nemo:25.04.01"),
        ("127.0.0.1:5000/team/app:1", "127.0.0.1:5000/team/app:1", "127.0.0.1:5000#team/app:1"),
        ("localhost/app", "localhost/app:latest", "localhost#app:latest"),
        ("python:3.12", "docker.io/library/python:3.12", "docker.io#library/python:3.12"),
        ("team/app:1", "docker.io/team/app:1", "docker.io#team/app:1"),
        (f"nvcr.io/nvidia/nemo:25@{SHA}", f"nvcr.io/nvidia/nemo@{SHA}", f"nvcr.io#nvidia/nemo@{SHA}"),
    ],
)
def test_each_tool_gets_its_own_spelling(text: str, docker: str, enroot: str) -> None:
    assert (parse_reference(text).docker, parse_reference(text).enroot) == (docker, enroot)


WORDS = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)


@given(WORDS, WORDS, st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,12}", fullmatch=True))
def test_both_spellings_mean_the_same(team: str, name: str, tag: str) -> None:
    reference = parse_reference(f"registry.example:5000/{team}/{name}:{tag}")
    assert parse_reference(reference.docker) == parse_reference(reference.enroot) == reference


@pytest.mark.parametrize("text", ["", "nvcr.io#", "nvcr.io#Nvidia/nemo", "a b", "x:y:z", "a#b@sha256:12", "../../etc"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not an image reference"):
        parse_reference(text)


def test_a_file_is_taken_as_it_is_when_its_kind_fits(tmp_path: Path) -> None:
    assert image_file("/images/mine.sqsh", tmp_path, ".sqsh", "enroot") == Path("/images/mine.sqsh")
    with pytest.raises(
        UsageError, match=r"cannot start /images/mine.sqsh: expected a .sif file \(.sqsh files are for enroot"
    ):
        image_file("/images/mine.sqsh", tmp_path, ".sif", "apptainer")
    with pytest.raises(UsageError, match=r"supported suffixes: .sqsh, .sif, .tar"):
        image_file("/images/mine.img", tmp_path, ".sif", "apptainer")
