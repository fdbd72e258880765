"""One lock for several processes and machines: who waits, what they read meanwhile, and when a holder is replaced."""

from __future__ import annotations

import platform
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import pytest

from llmbx_environments import locks
from llmbx_environments.locks import held

HOLDER = """
import sys
from pathlib import Path
from llmbx_environments import locks

locks.LEASE_S = float(sys.argv[2])
with locks.held(Path(sys.argv[1]), "it works", print) as waited:
    print("held", waited, flush=True)
    sys.stdin.read()
    Path(sys.argv[1] + ".left").touch()
"""
"""Holds the lock until its input ends, and then leaves a file."""


@contextmanager
def another_process(path: Path, lease_s: float = locks.LEASE_S) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock."""
    argv = [sys.executable, "-c", HOLDER, str(path), str(lease_s)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "held False\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".image.lease"


def test_a_free_lock_is_held_without_waiting_and_removed_at_the_end(path: Path) -> None:
    lines: list[str] = []
    with held(path, "it imports", lines.append) as waited:
        assert not waited and path.exists()
    assert not path.exists() and lines == []


def test_a_lock_is_released_if_its_holder_fails(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), held(path, "it imports", print):
        raise ZeroDivisionError
    with held(path, "it imports", print) as waited:
        assert not waited


def test_the_second_process_waits_for_the_first_and_reads_who_it_is(path: Path) -> None:
    lines: list[str] = []
    with another_process(path) as process:

        def progress(line: str) -> None:
            lines.append(line)
            assert process.stdin is not None
            process.stdin.close()

        with held(path, "it imports app.sif", progress) as waited:
            assert waited, "the caller looks again whether there is anything left to do"
            assert Path(f"{path}.left").exists(), "the first was done"
        host = platform.node().partition("?")[0]
        assert lines == [f"waiting (0 s): process {process.pid} on {host} has the lock: it imports app.sif"]


def test_a_holder_that_died_on_this_machine_is_replaced_at_once(path: Path) -> None:
    """Not after the lease of a minute: nobody waits for it."""
    with another_process(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert path.exists(), "it left its lock"
        lines: list[str] = []
        with held(path, "it imports", lines.append):
            assert path.exists()
        assert lines == [] and not path.exists()


def stale_of_another_machine(path: Path, lease_s: float) -> None:
    """Leave the lock of a process that died on the machine `elsewhere`."""
    with another_process(path, lease_s) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    text, replaced = re.subn(rf"\b{re.escape(platform.node())}\b", "elsewhere", path.read_text())
    assert replaced
    path.write_text(text)


def test_a_holder_on_another_machine_loses_the_lock_when_its_lease_ends(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LEASE_S", 0.4)
    stale_of_another_machine(path, 0.4)
    lines: list[str] = []
    with held(path, "it imports", lines.append) as waited:
        assert waited, "no one knows whether a process of another machine lives: its lease decides"
    (line,) = lines
    assert re.fullmatch(r"waiting \(0 s\): process \d+ on elsewhere has the lock: it imports", line)


def test_a_living_holder_keeps_the_lock_beyond_its_lease(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease is renewed while the work takes longer."""
    monkeypatch.setattr(locks, "LEASE_S", 0.3)
    with another_process(path, 0.3) as process:
        assert process.stdin is not None
        end = threading.Timer(1.0, process.stdin.close)
        end.start()
        with held(path, "it imports", print):
            assert Path(f"{path}.left").exists()
        end.join()


def test_a_lock_that_names_no_process_is_another_processs(path: Path) -> None:
    path.write_text("")
    lines: list[str] = []

    def progress(line: str) -> None:
        lines.append(line)
        path.unlink()

    with held(path, "it imports", progress) as waited:
        assert waited
    assert lines == ["waiting (0 s): another process has the lock: it imports"]


class Busy:
    """A lease that another process holds for some attempts of two seconds."""

    owner = None

    def __init__(self, *arguments: object, **options: object) -> None:
        self.seconds, self.attempts = 0.0, 0

    def acquire(self, timeout: float, poll_interval: float) -> None:
        assert self.attempts < 100, "it waits without a pause"
        self.attempts += 1
        self.seconds += timeout
        if self.seconds < 65:
            raise filelock.Timeout("lock")

    def release(self) -> None:
        pass


def test_a_waiting_process_says_so_at_once_and_then_twice_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Busy()
    monkeypatch.setattr(filelock, "SoftFileLease", lambda *arguments, **options: lease)
    monkeypatch.setattr("time.monotonic", lambda: lease.seconds)
    lines: list[str] = []
    with held(Path("lock"), "it imports", lines.append):
        pass
    assert [re.search(r"\((\d+) s\)", line)[1] for line in lines] == ["0", "30", "60"]  # type: ignore[index]


def test_a_lock_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"), held(tmp_path / "file" / "lock", "it imports", print):
        raise AssertionError("the lock is not held")
