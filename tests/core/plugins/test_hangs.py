"""A plugin that hangs or is slow is named, and does not keep the others from working."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from llmbx.errors import PluginError, UsageError
from llmbx.plugins.calls import Call
from llmbx.plugins.hangs import VARIABLE, _Alarm, alarm, limit_s

MAIN = "from llmbx.cli.main import main; main()"
HANGS = """
import time
from llmbx.api import hookimpl

@hookimpl
def register_workloads():
    while True:
        try:
            time.sleep(60)
        except Exception:
            pass
"""


def llmbx(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "LLMBX_PLUGINS": str(path), VARIABLE: "0.5", "HOME": str(path.parent)}
    return subprocess.run(
        [sys.executable, "-c", MAIN, *arguments], env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (HANGS, "plugin 'odd': register_workloads did not return within 0.5 s"),
        ("while True:\n    pass\n", "its import did not return within 0.5 s"),
    ],
)
def test_a_plugin_that_hangs_is_given_up(content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(content)
    done = llmbx(tmp_path / "odd.py", "list", "--format", "json")
    assert done.returncode == 0 and says in done.stderr
    assert {row["plugin"] for row in json.loads(done.stdout)} >= {"nemo", "maxtext"}
    rows = json.loads(llmbx(tmp_path / "odd.py", "plugins", "--format", "json").stdout)
    assert [says in row["status"] for row in rows if row["name"] == "odd"] == [True]


def test_the_time_of_each_plugin_is_listed(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        HANGS.replace("while True:", "if True:").replace("sleep(60)", "sleep(0.2)\n            return []")
    )
    rows = json.loads(llmbx(tmp_path / "odd.py", "plugins", "--timing", "--format", "json").stdout)
    (odd,) = (row for row in rows if row["name"] == "odd")
    assert odd["hooks"]["register_workloads"] >= 200 and odd["slowest_hook"] == "register_workloads"
    assert odd["total_ms"] >= odd["hooks_ms"] >= 200 and odd["import_ms"] < 200
    assert [row["total_ms"] for row in rows] == sorted((row["total_ms"] for row in rows), reverse=True)


def limited(name: str, seconds: float) -> Call:
    return Call("plugin 'odd'", name, limit_s=seconds)


def test_limits_may_be_nested_and_end_with_their_block() -> None:
    with limited("outer", 30):
        with (
            pytest.raises(PluginError, match=r"^plugin 'odd': inner did not return within 0.05 s"),
            limited("inner", 0.05),
        ):
            time.sleep(30)
        with limited("inner", 30):
            pass
    says = r"^plugin 'odd': outer did not return within 0.3 s"
    with pytest.raises(PluginError, match=says), limited("outer", 0.3), limited("inner", 30):
        time.sleep(30)
    before = signal.getsignal(signal.SIGALRM)
    with limited("short", 30):
        assert signal.getsignal(signal.SIGALRM) is not before
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_alarm_while_a_call_begins_waits_until_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a call that never began would stay in the list of those that run, and be ended again and again."""

    def begin(call: Call) -> None:
        _Alarm.begin(alarm, call)
        deadline = time.monotonic() + 0.1
        while time.monotonic() < deadline:
            pass

    inside = types.FunctionType(begin.__code__, {**globals(), "__name__": _Alarm.__module__})
    monkeypatch.setattr(alarm, "begin", inside)
    with pytest.raises(PluginError, match="did not return within"), limited("late", 0.01):
        time.sleep(30)
    assert alarm.calls == {}


def test_the_alarm_of_others_is_given_back() -> None:
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(True))
    try:
        signal.setitimer(signal.ITIMER_REAL, 3600)
        with limited("inner", 30):
            pass
        assert 3000 < signal.getitimer(signal.ITIMER_REAL)[0] <= 3600
        signal.raise_signal(signal.SIGALRM)
        assert rang == [True]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_call_of_another_thread_is_not_ended() -> None:
    ended = []

    def wait() -> None:
        with limited("other", 0.01):
            time.sleep(0.1)
        ended.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert ended == [True]


def test_the_limit_can_be_set() -> None:
    assert (limit_s({}), limit_s({VARIABLE: "0"}), limit_s({VARIABLE: "5"})) == (60, float("inf"), 5)
    for text in ("x", "-1", "nan", "inf"):
        with pytest.raises(UsageError, match=f"{VARIABLE}='{text}': expected a number of seconds"):
            limit_s({VARIABLE: text})
