"""Fixtures that read logs with both engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx_nccltrace import native_engine
from llmbx_nccltrace.blocks import BLOCK, Blocks, Chunk
from llmbx_nccltrace.communicators import merge_damaged_hosts
from llmbx_nccltrace.counts import LogCounts, append
from llmbx_nccltrace.divergence import divergences
from llmbx_nccltrace.python_engine import PythonCounter
from llmbx_nccltrace.report import Report
from llmbx_nccltrace.scan import read_logs
from llmbx_nccltrace.summary import summarize

Read = Callable[..., Report]
Count = Callable[..., LogCounts]


@pytest.fixture(scope="session", autouse=True)
def scanner() -> object:
    """The compiled scanner; required, since these tests compare both engines."""
    found, library = native_engine.load(), native_engine.SHARED_OBJECT
    assert found is not None, f"these tests need {library}: install a C compiler (gcc or clang), then llmbx again"
    source = library.with_name("scan.c")  # is there in an editable installation
    if source.exists():
        current = source.stat().st_mtime <= library.stat().st_mtime
        assert current, f"{library} is older than scan.c: run pip install -e . again"
    return found


@pytest.fixture(params=["native", "python"])
def engine(request: pytest.FixtureRequest) -> str:
    """Run the test with each engine."""
    return str(request.param)


@pytest.fixture
def read(tmp_path: Path, engine: str) -> Read:
    """`read(line, line, …)` returns the report of a log with these lines, for each engine."""

    def report(*lines: str, formats: tuple[object, ...] = ()) -> Report:
        path = tmp_path / "log.out"
        path.write_text("".join(line + "\n" for line in lines))
        counts, used = read_logs([path], engine)  # type: ignore[arg-type]
        assert used == engine
        merge_damaged_hosts(counts)
        return summarize(counts, [path], formats, divergences(counts, [path]))  # type: ignore[arg-type]

    return report


@pytest.fixture(scope="session")
def count(scanner: object) -> Count:
    """`count(path, engine, block, cuts)` returns the counts of a file, read in blocks and split at `cuts`."""

    def counts(path: Path, engine: str, block: int = BLOCK, cuts: tuple[int, ...] = ()) -> LogCounts:
        total, bounds = LogCounts(), [0, *sorted(cuts)]
        for start, stop in zip(bounds, [*bounds[1:], None], strict=True):
            counter = native_engine.NativeCounter(scanner) if engine == "native" else PythonCounter()  # type: ignore[arg-type]
            append(total, counter.run(Blocks(Chunk(path, start, stop), block)))
        return total

    return counts
