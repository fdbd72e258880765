"""A profiler that fails before the program starts is started again; a program that fails is not."""

from __future__ import annotations

import subprocess
from importlib import resources
from pathlib import Path

import pytest

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


def test_the_program_does_not_see_the_mark(run) -> None:  # type: ignore[no-untyped-def]
    done, _ = run(0, "env")
    assert "LLMBX_PROFILER_MARK" not in done.stdout and "LLMBX_RANK=3" in done.stdout


LENT = """#!/bin/sh
case $LD_LIBRARY_PATH in /opt/llmbx/lib*) ;; *) [ "$NEEDS" ] && exit 127 ;; esac
[ "$1" = --version ] && exit
echo "lent with $1, libraries ${LD_LIBRARY_PATH-none}"
shift
exec "$@"
"""
SHOW = 'echo "program with libraries ${LD_LIBRARY_PATH-none}, own ${LLMBX_OWN_LIBRARIES-none}"'


def start_lent(folder: Path, command: str, lent: Path | str, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "nsys_profile").mkdir()
    argv = ["/bin/sh", SCRIPT, str(lent), command, "profile", "/bin/sh", SCRIPT, "/bin/sh", "-c", SHOW]
    environ = {"PATH": "/usr/bin:/bin", "LLMBX_RANK": "0", **env}
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def lent_program(folder: Path) -> Path:
    program = folder / "lent"
    program.write_text(LENT)
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
def test_where_the_image_has_no_profiler_the_lent_one_is_started(
    env: dict[str, str], profiler: str, program: str, tmp_path: Path
) -> None:
    """It gets the lent libraries only where it does not start without them, and the program never does."""
    done = start_lent(tmp_path, "nsys-of-no-image", lent_program(tmp_path), **env)
    expected = f"lent with profile, libraries {profiler}\nprogram with libraries {program}, own none\n"
    assert (done.stdout, done.returncode) == (expected, 0), done.stderr


def test_the_images_own_profiler_comes_first(tmp_path: Path) -> None:
    done = start_lent(tmp_path, "env", lent_program(tmp_path))
    assert "lent" not in done.stdout and "profile" in done.stderr, "env was started, which knows no profile"


def test_without_any_profiler_that_is_said(tmp_path: Path) -> None:
    done = start_lent(tmp_path, "nsys-of-no-image", "")
    assert done.returncode == 127 and "nsys-of-no-image is not on PATH where the ranks run" in done.stderr


def test_a_profiler_that_cannot_start_here_is_none(tmp_path: Path) -> None:
    """A container may see the host's own nsys without the libraries that it needs."""
    seen = tmp_path / "seen"
    seen.write_text("#!/bin/sh\nexit 127\n")
    seen.chmod(0o755)
    done = start_lent(tmp_path, str(seen), lent_program(tmp_path))
    assert done.returncode == 0 and "lent with profile" in done.stdout
