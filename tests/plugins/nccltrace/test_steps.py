"""Assignment of calls to the training steps in the same log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from llmbx.logs.parser import LogFormat, LogParser, Record
from llmbx.logs.restarts import RESTARTED
from llmbx.model import Event, Step
from llmbx_nccltrace.report import Report
from llmbx_nccltrace.steps import calls_by_step, usual_calls

from .lines import coll

Read = Callable[..., Report]
LINE = re.compile(r"round (\d+) done")


class Rounds(LogParser):
    """The log format of an invented framework."""

    def feed(self, line: str) -> Iterable[Record]:
        if line == "start over":
            return [Event(kind=RESTARTED, text=line)]
        found = LINE.search(line)
        return [Step(number=int(found[1]))] if found else []


FORMATS = (
    LogFormat("other", "Other", lambda text: 0, Rounds),
    LogFormat("rounds", "Rounds", lambda text: len(LINE.findall(text)), Rounds),
)


def test_calls_between_the_lines_of_steps(read: Read) -> None:
    second = [coll(), coll(), "round 2 done", "round 2 done"]
    steps = read(coll(), "round 1 done", *second, coll(), coll(), "round 3 done", coll(), formats=FORMATS).steps
    assert [(s.step, s.calls, s.message_bytes) for s in steps or ()] == [(1, 1, 2048), (2, 2, 4096), (3, 2, 4096)]
    assert usual_calls(steps or ()) == 2


def test_damaged_lines_count_in_their_step(read: Read) -> None:
    lines = ["round 1 done", coll()[:99] + coll(), coll(label="[default1]: "), "round 2 done", coll()]
    assert [s.calls for s in read(*lines, formats=FORMATS).steps or ()] == [0, 2]


def test_only_the_last_attempt_is_returned(read: Read) -> None:
    attempt = ["round 1 done", coll(), "round 2 done"]
    steps = read(*attempt, coll(), "start over", coll(), *attempt, formats=FORMATS).steps
    assert [(s.step, s.calls) for s in steps or ()] == [(1, 1), (2, 1)]


@pytest.mark.parametrize("formats", [(), FORMATS])
def test_no_steps_is_null(read: Read, formats: tuple[LogFormat, ...]) -> None:
    assert read(coll(), "nothing here", formats=formats).steps is None


def test_one_step_has_no_median(read: Read) -> None:
    assert usual_calls(read(coll(), "round 1 done", formats=FORMATS).steps or ()) is None


def test_steps_of_chunks_add_up(count: Callable[..., object], tmp_path: object) -> None:
    path = Path(str(tmp_path)) / "log"
    path.write_text("".join(f"{coll()}\n{coll()}\nround {n} done\n" for n in range(1, 9)))
    for engine in ("native", "python"):
        counts = count(path, engine, 600, (450, 1000, 2300))
        assert [s.calls for s in calls_by_step(counts, FORMATS) or ()] == [2] * 8  # type: ignore[arg-type]
