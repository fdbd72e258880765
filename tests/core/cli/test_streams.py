"""Exit codes if the output cannot be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ...patience import PATIENCE_S

COMMAND = f"{sys.executable} -m llmbx"
CODES = 'echo "${PIPESTATUS[0]}" >&3'


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", os.devnull)
    return tmp_path / "install"


def shell(text: str, tmp_path: Path, **environ: str) -> tuple[int, str, str]:
    """The exit code of the first command of a pipe, standard output and standard error."""
    line = f"{text.replace('llmbx', COMMAND)}; {CODES}"
    done = subprocess.run(
        ["bash", "-c", f"exec 3>{tmp_path}/code; {line}"],
        capture_output=True, text=True, check=False, env={**os.environ, **environ},
    )  # fmt: skip
    return int((tmp_path / "code").read_text()), done.stdout, done.stderr


@pytest.mark.parametrize("verb", ["list", "jobs", "run --help", "plugins"])
def test_a_closed_pipe_is_not_an_error(verb: str, install: Path, tmp_path: Path) -> None:
    code, _, errors = shell(f"llmbx {verb} | true", tmp_path)
    assert (code, errors.replace("nothing\n", "")) == (0, errors and "") or ("Traceback" not in errors and code == 0)


def test_the_exit_code_is_the_same_with_a_closed_pipe(install: Path, tmp_path: Path) -> None:
    for wanted in (shell("llmbx show nothing", tmp_path), shell("llmbx show nothing | true", tmp_path)):
        assert wanted[0] == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(("where", "says"), [(">/dev/full", "No space left"), (">&-", "Bad file descriptor")])
def test_output_that_cannot_be_written_is_one_line_and_exit_4(
    where: str, says: str, install: Path, tmp_path: Path
) -> None:
    code, _, errors = shell(f"llmbx list {where}", tmp_path)
    assert code == 4
    assert errors.startswith("llmbx: the output could not be written: " + says) and errors.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-"])
def test_an_unwritable_stderr_does_not_change_the_exit_code(where: str, install: Path, tmp_path: Path) -> None:
    assert shell(f"llmbx jobs --format json {where}", tmp_path) == (0, "[]\n", "")
    assert shell(f"llmbx show nothing {where}", tmp_path) == (2, "", "")


def test_a_character_that_the_encoding_lacks_is_a_question_mark(install: Path, tmp_path: Path) -> None:
    code, text, errors = shell("llmbx run --help", tmp_path, PYTHONIOENCODING="latin-1")
    assert code == 0 and "mini ?" in text and errors == ""


def test_ctrl_c_is_quiet_from_the_first_moment(install: Path) -> None:
    # An import that takes its time, as from a cold network disk.
    slow = "import sys, time; sys.modules['click'] = None\n"
    code = f"{slow}import llmbx.__main__ as m\nprint('up', flush=True)\nimport builtins\n" \
           "real = builtins.__import__\n" \
           "def late(name, *rest):\n" \
           "    if 'cli' in name:\n" \
           "        print('importing', flush=True)\n" \
           "        time.sleep(600)\n" \
           "    return real(name, *rest)\n" \
           "builtins.__import__ = late\nm.main()\n"  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"up\n"
        assert process.stdout.readline() == b"importing\n"
        process.send_signal(signal.SIGINT)
        assert (process.wait(PATIENCE_S), process.stderr and process.stderr.read()) == (130, b"")
