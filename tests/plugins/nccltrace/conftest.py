"""Logs to read, and both engines to read them with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmbx_nccltrace import native
from llmbx_nccltrace.blocks import BLOCK, Blocks, Stretch
from llmbx_nccltrace.counting import Counting
from llmbx_nccltrace.report import Report
from llmbx_nccltrace.scan import read_logs
from llmbx_nccltrace.summary import summarise
from llmbx_nccltrace.tally import Tally, append

Read = Callable[..., Report]
Count = Callable[..., Tally]


@pytest.fixture(scope="session")
def scanner() -> Iterator[object]:
    """The compiled scanner; it must be there, for these tests compare it with the other engine."""
    with native.scanner(os.environ) as found:
        assert found is not None, "these tests need a C compiler"
        yield found


@pytest.fixture(params=["native", "python"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine in turn."""
    return str(request.param)


@pytest.fixture
def read(tmp_path: Path, engine: str) -> Read:
    """`read(line, line, …)` is the report of a log with these lines, by each engine."""

    def report(*lines: str, formats: tuple[object, ...] = ()) -> Report:
        path = tmp_path / "log.out"
        path.write_text("".join(line + "\n" for line in lines))
        tally, used = read_logs([path], engine)  # type: ignore[arg-type]
        assert used == engine
        return summarise(tally, [path], formats)  # type: ignore[arg-type]

    return report


@pytest.fixture(scope="session")
def count(scanner: object) -> Count:
    """`count(path, engine, block, cuts)`: the tally of a file read in blocks of that size, in stretches cut there."""

    def tally(path: Path, engine: str, block: int = BLOCK, cuts: tuple[int, ...] = ()) -> Tally:
        total, bounds = Tally(), [0, *sorted(cuts)]
        for start, stop in zip(bounds, [*bounds[1:], None], strict=True):
            counter = native.Scanning(scanner) if engine == "native" else Counting()  # type: ignore[arg-type]
            append(total, counter.run(Blocks(Stretch(path, start, stop), block)))
        return total

    return tally
