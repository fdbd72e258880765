"""What Apptainer and Singularity say about themselves and about an image, also if they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx_environments.containers.runtimes.apptainer_tool import Apptainer, version


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The name of a program that runs the shell script in $SCRIPT; there is no program named singularity."""
    version.cache_clear()
    program = tmp_path / "apptainer"
    program.write_text('#!/bin/sh\neval "$SCRIPT"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return "apptainer"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo apptainer version 1.4.5", "1.4.5"),
        ("echo singularity-ce version 4.1.0-jammy", "4.1.0-jammy"),
        ("echo 2.6.1-dist", "2.6.1-dist"),
        ("echo broken >&2; exit 1", None),
        (":", None),
    ],
)
def test_the_version(script: str, expected: str | None, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIPT", script)
    assert version(tool) == expected
    assert version("no-such-tool") is None


@pytest.mark.parametrize(
    ("script", "labels"),
    [
        (
            """echo '{"data": {"attributes": {"labels": {"a": "b", "n": "1"}}}, "type": "container"}'""",
            {"a": "b", "n": "1"},
        ),
        ("""echo '{"data": {"attributes": {"deffile": "x"}}}'""", {}),
        ("echo not json", {}),
        ("echo 'FATAL: no such image' >&2; exit 255", {}),
        (":", {}),
    ],
)
def test_the_labels(
    script: str, labels: dict[str, str], tool: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCRIPT", script)
    assert Apptainer(tool).labels(Path("x.sif")) == labels
    assert capfd.readouterr() == ("", "")


def test_a_build_is_run_by_the_caller(tool: str, tmp_path: Path) -> None:
    ran: list[tuple[str, ...]] = []
    Apptainer(tool).build(Path("a.def"), tmp_path / "a.sif", ("--no-https",), ran.append)
    assert ran == [(tool, "build", "--no-https", str(tmp_path / "a.sif"), "a.def")]
