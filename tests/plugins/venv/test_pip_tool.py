"""Selection of pip, the user's pip settings, failure messages and progress."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx_venv import pip_tool
from llmbx_venv.pip_progress import PipProgress

WHEELS = Path("/install/wheels")
MISSING = "ERROR: No matching distribution found for torch==2.13.0"
RETRY = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(\"[Errno 111] {}\")'"


@pytest.mark.parametrize(
    ("lines", "configured", "offline", "said"),
    [
        ([RETRY.format("Connection refused"), MISSING], {}, False, "torch==2.13.0 could not be downloaded: Connection"),
        ([RETRY.format("Network is unreachable"), MISSING], {}, False, "(searched: the default index, according"),
        (
            [MISSING],
            {"index-url": "https://u:p@x/", "find-links": "/w"},
            False,
            "searched: index-url, find-links, according",
        ),
        ([MISSING], {"no-index": "1", "find-links": "/w"}, False, "was not found (searched: find-links,"),
        ([MISSING], {}, True, "torch==2.13.0 is not in /install/wheels or another local find-links folder"),
        (["ERROR: [Errno 28] No space left on device"], {}, False, "the disk is full"),
        (["ERROR: 403 Client Error: Forbidden for url: https://u:p@x/"], {}, False, "downloaded: 403 Client Error"),
        (["Collecting x", "ERROR: Cannot install a and b"], {}, False, "pip failed: Cannot install a and b"),
        ([], {}, False, "pip failed: no error output"),
    ],
)
def test_a_failure_is_one_line_that_shows_no_addresses(
    lines: list[str], configured: dict[str, str], offline: bool, said: str
) -> None:
    text = pip_tool.explain_failure(lines, configured, WHEELS, offline)
    assert said in text
    assert "\n" not in text
    assert "u:p@" not in text


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
    monkeypatch.setattr(pip_tool, "uv_command", lambda environ: str(uv))
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
    monkeypatch.setattr(pip_tool, "uv_command", lambda environ: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InfraError, match=r"no pip >= 22\.3 was found for /(usr/)?bin/false"):
        pip_tool.pip_command("/bin/false")


def test_offline_keeps_only_local_links() -> None:
    links = "/a/wheels https://wheels.example/x file:///b"
    env = pip_tool.without_network({"PIP_INDEX_URL": "https://x"}, {"find-links": links})
    assert env["PIP_NO_INDEX"] == "1"
    assert env["PIP_FIND_LINKS"].split() == ["/a/wheels", "file:///b"]


def test_progress_is_limited_to_one_line_per_second_and_counts_packages() -> None:
    said: list[str] = []
    now, there = [0.0], {"six"}
    shown = PipProgress("env toy", said.append, lambda: there, clock=lambda: now[0])
    for number in range(20):
        now[0] += 0.1
        shown.line(f"Collecting package{number}==1.0")
    now[0] += 2
    shown.line("  Downloading https://x.example/torch-2.13.0%2Bcpu-cp311-cp311-linux.whl (184.2 MB)")
    shown.tick()
    assert said[-1] == "env toy: downloading torch 2.13.0+cpu (184.2 MB), package 20, 4 s"
    assert len(said) <= 4, "at most one line a second"
    shown.line("Installing collected packages: six, Typing_Extensions, torch")
    now[0] += 1
    shown.tick()
    assert said[-1] == "env toy: installing typing-extensions, 1 of 3 packages done, 5 s"
    count = len(said)
    for _ in range(30):
        now[0] += 0.25
        shown.tick()
    assert len(said) == count, "no line without a change"
    now[0] += 10
    shown.tick()
    assert len(said) == count + 1
