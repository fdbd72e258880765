"""Selection of pip."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx_venv import pip_tool


@pytest.mark.parametrize(
    ("pip", "python", "own"),
    [("22.2", "3.11.2", False), ("23.0.1", "3.11.2", True), ("23.0.1", "3.12.1", False), ("23.2", "3.12.1", True),
     ("24.0", "3.13.5", False), ("26.1", "3.14.0", True)],
)  # fmt: skip
def test_a_pip_too_old_for_the_environments_python_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pip: str, python: str, own: bool
) -> None:
    """Uses a fake interpreter. Debian 12's pip 23.0.1 fails in Python 3.12 with an AttributeError."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: pip)
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\ncase "$2" in -c) echo {python};; *) echo pip 99.0 from here;; esac\n')
    program.chmod(0o755)
    command = pip_tool.pip_command(str(program))
    assert command[0] == (sys.executable if own else str(program))


@pytest.mark.parametrize(
    ("works", "used"),
    [("-m pip", "{base} -P -m pip"), ("/w/pip-24.0.whl/pip", "{base} /w/pip-24.0.whl/pip"),
     ("tool run", "{uv} tool run --python {base} pip")],
)  # fmt: skip
def test_without_a_pip_of_its_own_llmbx_finds_one_and_installs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: str, used: str
) -> None:
    uv = tmp_path / "uv"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(pip_tool, "find_program", lambda environ: str(uv))
    facts = "*platform*) echo 3.11.2;; *ensurepip*) echo /w/pip-24.0.whl;;"
    for program in (tmp_path / "base", uv):
        program.write_text(
            f'#!/bin/sh\ncase "$*" in {facts} *"{works}"*--version) echo pip 24.0 x;; *) exit 1;; esac\n'
        )
        program.chmod(0o755)
    (tmp_path / "python").symlink_to("base")
    python = str(tmp_path / "python")
    expected = used.format(base=tmp_path / "base", uv=uv).split()
    assert pip_tool.pip_command(python) == [*expected, "--python", python]


def test_the_wheel_that_an_interpreter_has_is_a_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    base = tmp_path / "base"
    base.write_text(f'#!/bin/sh\n[ "$2" != -m ] || exit 1\nexec {Path(sys.executable).resolve()} "$@"\n')
    base.chmod(0o755)
    command = pip_tool.pip_command(str(base))
    assert command[1].endswith("-none-any.whl/pip") and command[2:] == ["--python", str(base)]


def test_no_way_to_a_pip_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(pip_tool, "find_program", lambda environ: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InfraError, match=r"no pip >= 22\.3 was found for /(usr/)?bin/false"):
        pip_tool.pip_command("/bin/false")
