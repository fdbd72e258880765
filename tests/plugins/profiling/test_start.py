"""A profiler that fails before the program starts is retried; a program that outlives its profiler is waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from importlib import resources
from pathlib import Path

import pytest

from ...patience import PATIENCE_S

SCRIPT = str(resources.files("llmbx_profiling") / "start.sh")
PROFILER = """#!/bin/sh
echo try >> tries
[ "$(wc -l < tries)" -gt FAILS ] || { echo "End of file" >&2; exit 1; }
exec "$@"
"""


@pytest.fixture
def run(tmp_path: Path) -> object:
    (tmp_path / "nsys_profile").mkdir()

    def start(fails: int, *program: str) -> tuple[subprocess.CompletedProcess[str], int]:
        profiler = tmp_path / "profiler"
        profiler.write_text(PROFILER.replace("FAILS", str(fails)))
        profiler.chmod(0o755)
        argv = ["/bin/sh", SCRIPT, "", profiler, "/bin/sh", SCRIPT, *program]
        env = {"PATH": "/usr/bin:/bin", "LLMBX_RANK": "3"}
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        return done, len((tmp_path / "tries").read_text().split())

    return start


def test_a_profiler_that_fails_first_is_started_again(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    done, tries = run(2, "sh", "-c", 'echo "ran with $1"; exit 7', "sh", "a b")
    assert (done.stdout, done.returncode, tries) == ("ran with a b\n", 7, 3)
    assert "before the program started (try 2)" in done.stderr
    assert list((tmp_path / "nsys_profile").iterdir()) == []


def test_a_program_that_fails_is_not_started_again(run) -> None:  # type: ignore[no-untyped-def]
    done, tries = run(0, "sh", "-c", "echo once; exit 1")
    assert (done.stdout, done.returncode, tries) == ("once\n", 1, 1)


def test_a_profiler_that_never_works_ends_the_rank_with_its_code(run) -> None:  # type: ignore[no-untyped-def]
    done, tries = run(9, "true")
    assert (done.returncode, tries) == (1, 3)


DIES = """#!/bin/sh
"$@" & # the agent is gone: nsys ends, its program does not
while ! grep -qs runs "$LLMBX_PROFILER_MARK"; do sleep 0.01; done
exit CODE
"""
"""Stands for an nsys that loses its agent while the program runs ("Connection to Agent lost", exit code 0)."""


def start_with_profiler(folder: Path, profiler: str, program: str) -> subprocess.Popen[str]:
    (folder / "nsys_profile").mkdir()
    (folder / "profiler").write_text(profiler)
    (folder / "profiler").chmod(0o755)
    argv = ["/bin/sh", SCRIPT, "", folder / "profiler", "/bin/sh", SCRIPT, "/bin/sh", "-c", program]
    env = {"PATH": "/usr/bin:/bin", "LLMBX_RANK": "3"}
    return subprocess.Popen(
        argv, cwd=folder, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@pytest.mark.parametrize(("profiler_code", "code"), [(0, 0), (0, 7), (1, 0)])
def test_a_program_that_outlives_its_profiler_ends_the_rank(profiler_code: int, code: int, tmp_path: Path) -> None:
    dies = DIES.replace("CODE", str(profiler_code))
    rank = start_with_profiler(tmp_path, dies, f"sleep 0.5; echo trained; exit {code}")
    said, _ = rank.communicate(timeout=PATIENCE_S)
    assert said.splitlines() == [
        f"llmbx: the profiler ended with exit code {profiler_code} while the program runs, which goes on without it",
        "trained",
    ]
    assert rank.returncode == code
    assert [file.name for file in (tmp_path / "nsys_profile").iterdir()] == ["ended-early-3"]


HANDLES_TERM = 'trap "echo saved; exit 5" TERM; echo runs; while :; do sleep 0.1; done'


def test_nsys_stops_the_program_through_the_shell_between_them(tmp_path: Path) -> None:
    """nsys sends SIGTERM to the process that it started, which is the shell."""
    rank = start_with_profiler(tmp_path, '#!/bin/sh\n"$@" & wait $!\nexit $?\n', HANDLES_TERM)
    assert rank.stdout is not None and rank.stdout.readline() == "runs\n"
    shell = int((tmp_path / "nsys_profile" / ".started-3").read_text().removeprefix("runs "))
    os.kill(shell, signal.SIGTERM)
    said, _ = rank.communicate(timeout=PATIENCE_S)
    assert (said, rank.returncode) == ("saved\n", 5)


def test_a_program_without_its_profiler_is_stopped_with_the_rank(tmp_path: Path) -> None:
    rank = start_with_profiler(tmp_path, DIES.replace("CODE", "0"), HANDLES_TERM)
    deadline = time.monotonic() + PATIENCE_S
    while not (tmp_path / "nsys_profile" / "ended-early-3").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    rank.send_signal(signal.SIGTERM)
    said, _ = rank.communicate(timeout=PATIENCE_S)
    assert said.endswith("saved\n") and rank.returncode == 5


def test_a_rank_whose_program_was_killed_with_its_shell_has_not_succeeded(tmp_path: Path) -> None:
    rank = start_with_profiler(tmp_path, '#!/bin/sh\n"$@"\nexit 0\n', "kill -9 $PPID")
    rank.communicate(timeout=PATIENCE_S)
    assert rank.returncode == 137


def test_the_program_does_not_see_the_mark(run) -> None:  # type: ignore[no-untyped-def]
    done, _ = run(0, "env")
    assert "LLMBX_PROFILER_MARK" not in done.stdout and "LLMBX_RANK=3" in done.stdout


HOST_PROFILER = """#!/bin/sh
case $LD_LIBRARY_PATH in /opt/llmbx/lib*) ;; *) [ "$NEEDS" ] && exit 127 ;; esac
[ "$1" = --version ] && exit
echo "host profiler with $1, libraries ${LD_LIBRARY_PATH-none}"
shift
exec "$@"
"""
SHOW = 'echo "program with libraries ${LD_LIBRARY_PATH-none}, own ${LLMBX_OWN_LIBRARIES-none}"'


def start_with_host_profiler(
    folder: Path, command: str, host_profiler: Path | str, **env: str
) -> subprocess.CompletedProcess[str]:
    (folder / "nsys_profile").mkdir()
    argv = ["/bin/sh", SCRIPT, str(host_profiler), command, "profile", "/bin/sh", SCRIPT, "/bin/sh", "-c", SHOW]
    environ = {"PATH": "/usr/bin:/bin", "LLMBX_RANK": "0", **env}
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def host_program(folder: Path) -> Path:
    program = folder / "host-nsys"
    program.write_text(HOST_PROFILER)
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("env", "profiler", "program"),
    [
        ({}, "none", "none"),
        ({"NEEDS": "1"}, "/opt/llmbx/lib", "none"),
        ({"NEEDS": "1", "LD_LIBRARY_PATH": "/own"}, "/opt/llmbx/lib:/own", "/own"),
    ],
)
def test_the_host_profiler_is_used_if_the_image_has_none(
    env: dict[str, str], profiler: str, program: str, tmp_path: Path
) -> None:
    """It gets the host's libraries only if it cannot start without them; the program never gets them."""
    done = start_with_host_profiler(tmp_path, "nsys-of-no-image", host_program(tmp_path), **env)
    expected = f"host profiler with profile, libraries {profiler}\nprogram with libraries {program}, own none\n"
    assert (done.stdout, done.returncode) == (expected, 0), done.stderr


def test_the_images_own_profiler_comes_first(tmp_path: Path) -> None:
    done = start_with_host_profiler(tmp_path, "env", host_program(tmp_path))
    assert "host profiler" not in done.stdout and "profile" in done.stderr, (
        "env was started and rejects the argument profile"
    )


def test_a_missing_profiler_is_an_error(tmp_path: Path) -> None:
    done = start_with_host_profiler(tmp_path, "nsys-of-no-image", "")
    assert done.returncode == 127 and "nsys-of-no-image is not on PATH in the environment of the ranks" in done.stderr


def test_a_profiler_that_cannot_start_is_not_used(tmp_path: Path) -> None:
    """A container may see the host's nsys without the libraries that it needs."""
    seen = tmp_path / "seen"
    seen.write_text("#!/bin/sh\nexit 127\n")
    seen.chmod(0o755)
    done = start_with_host_profiler(tmp_path, str(seen), host_program(tmp_path))
    assert done.returncode == 0 and "host profiler with profile" in done.stdout
