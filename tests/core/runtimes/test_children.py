"""A child process is followed line by line, and nothing of it is left when the call or llmbx itself ends early."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from llmbx.runtimes import children
from llmbx.runtimes.children import end_group, end_leftovers, follow

from ...patience import wait_until


def lines_of(script: str, tmp_path: Path, **environ: str) -> tuple[int, list[str]]:
    """The exit code of a shell script, and the lines that it prints."""
    lines: list[str] = []
    code = follow(["/bin/sh", "-c", script], {"PATH": os.environ["PATH"], **environ}, tmp_path, lines.append)
    return code, lines


@pytest.mark.parametrize(
    ("script", "code", "lines"),
    [
        ("echo one; echo two >&2; exit 3", 3, ["one", "two"]),
        ("printf 'no end'", 0, ["no end"]),
        ("printf '10 %%\\r20 %%\\rdone\\n'", 0, ["10 %", "20 %", "done"]),
        ("printf 'a\\n\\nb\\n'", 0, ["a", "", "b"]),
        ("printf '\\377x\\n'", 0, ["\ufffdx"]),
        ("kill -9 $$", -9, []),
        ("exit 0", 0, []),
    ],
    ids=["both streams", "no line break", "progress bars", "empty lines", "not UTF-8", "killed", "silent"],
)
def test_every_line_is_handed_over(script: str, code: int, lines: list[str], tmp_path: Path) -> None:
    assert lines_of(script, tmp_path) == (code, lines)


def test_a_line_in_pieces_and_a_large_output_arrive_whole(tmp_path: Path) -> None:
    assert lines_of("printf 'a b'; sleep 0.05; printf ' c\\n'", tmp_path)[1] == ["a b c"]
    script = f"i=0; while [ $i -lt 3000 ]; do echo $i {'a' * 50}; i=$((i+1)); done"
    lines = lines_of(script, tmp_path)[1]
    assert [int(line.split()[0]) for line in lines] == list(range(3000))


@pytest.fixture
def typed() -> Iterator[None]:
    """A line that waits in the standard input of this process."""
    before = os.dup(0)
    reader, writer = os.pipe()
    os.write(writer, b"typed by the user\n")
    os.dup2(reader, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        for number in (before, reader, writer):
            os.close(number)


@pytest.mark.usefixtures("typed")
def test_a_child_has_the_folder_and_the_variables_of_the_call_and_no_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOT_PASSED", "1")
    script = 'pwd; echo "$PASSED"; echo "${NOT_PASSED-unset}"; read line || echo "no input"'
    assert lines_of(script, tmp_path, PASSED="a b")[1] == [str(tmp_path), "a b", "unset", "no input"]


def test_a_program_that_does_not_exist_is_the_callers_to_explain(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        follow(["/nowhere/program"], {}, tmp_path, print)


def test_ctrl_c_in_the_terminal_does_not_reach_the_child_by_itself(tmp_path: Path) -> None:
    """It has a process group of its own: llmbx decides in which order things end."""
    _, lines = lines_of("echo $$; cut -d ' ' -f 5 /proc/$$/stat", tmp_path)
    leader, group = lines
    assert leader == group != str(os.getpgid(0))


def test_the_call_ticks_while_the_child_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline is checked there."""
    monkeypatch.setattr(children, "POLL_S", 0.01)

    class TooLate(Exception):
        pass

    ticks: list[int] = []

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 5:
            raise TooLate

    with pytest.raises(TooLate):
        follow(["/bin/sleep", "20"], {}, tmp_path, print, tick)


def is_running(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def stopped(error: Callable[[], BaseException], script: str, tmp_path: Path) -> list[int]:
    """The processes that the script printed before the first callback failed."""
    pids: list[int] = []

    def line(text: str) -> None:
        pids.extend(map(int, text.split()))
        raise error()

    with pytest.raises(type(error())):
        follow(["/bin/sh", "-c", script], {"PATH": os.environ["PATH"]}, tmp_path, line)
    return pids


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interruption_stops_the_child_and_all_its_children(
    error: Callable[[], BaseException], tmp_path: Path
) -> None:
    script = "sleep 3600 & echo $$ $!; wait"
    pids = stopped(error, script, tmp_path)
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_running, pids)), f"{pids} are still running")


def test_a_child_may_clean_up_before_it_ends(tmp_path: Path) -> None:
    script = "trap 'touch cleaned; exit' TERM; echo $$; sleep 3600 & wait"
    stopped(KeyboardInterrupt, script, tmp_path)
    assert (tmp_path / "cleaned").exists(), "the call waits for it"


def test_a_child_that_ignores_the_signal_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "GRACE_S", 0.2)
    script = "trap '' TERM; echo $$; i=0; while [ $i -lt 36000 ]; do sleep 0.1; i=$((i+1)); done"
    (pid,) = stopped(KeyboardInterrupt, script, tmp_path)
    wait_until(lambda: not is_running(pid), f"{pid} is still running")
    assert not is_running(pid)


def test_a_group_that_has_ended_is_no_error() -> None:
    child = subprocess.Popen(["/bin/sh", "-c", "exit 0"], stdout=subprocess.PIPE, start_new_session=True)
    child.wait()
    end_group(child)
    assert child.stdout is not None and child.stdout.closed


SLEEP = ["sh", "-c", "read line", "sh"]


def test_only_processes_with_the_folder_and_the_word_are_ended(tmp_path: Path) -> None:
    names = {"mine": [tmp_path / "file", "pip"], "word": [tmp_path / "file", "pipx"], "folder": ["/elsewhere", "pip"]}
    started = {name: subprocess.Popen([*SLEEP, *map(str, argv)], stdin=subprocess.PIPE) for name, argv in names.items()}
    end_leftovers(tmp_path, "pip")
    assert [psutil.pid_exists(process.pid) for process in started.values()] == [False, True, True]
    end_leftovers(tmp_path)
    assert [psutil.pid_exists(process.pid) for process in started.values()] == [False, False, True]
    started["folder"].communicate(b"\n")
    assert started["folder"].returncode == 0
