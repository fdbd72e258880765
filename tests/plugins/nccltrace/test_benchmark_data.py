"""The benchmark's log follows the format, is marked as generated, and all programs count the same calls in it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from llmbx_nccltrace.counts import LogCounts
from llmbx_nccltrace.summary import summarize

from .lines import oracle

BENCHMARKS = Path(__file__).parents[3] / "benchmarks" / "nccl"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The module that generates the log."""
    spec = importlib.util.spec_from_file_location("generate", BENCHMARKS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_programs_count_the_same(generator: ModuleType, count: Callable[..., LogCounts], tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    lines = generator.generate(log, 1_000_000, layers=8)
    sizes, cut, all_lines = oracle(log.read_text())
    assert lines == all_lines and not cut
    for engine in ("native", "python"):
        counts = count(log, engine)
        assert counts.sizes == sizes and counts.lines == lines
    command = [sys.executable, BENCHMARKS / "regex_counter.py", log]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == sizes.total()


def test_it_looks_like_a_healthy_run_and_is_marked_as_generated(
    generator: ModuleType, count: Callable[..., LogCounts], tmp_path: Path
) -> None:
    log = tmp_path / "nccl.log"
    generator.generate(log, 300_000, layers=8)
    assert "generated" in log.read_text().splitlines()[0]
    report = summarize(count(log, "native"), [log])
    assert report.warnings == () and report.lagging == ()
    assert report.transport is not None and report.transport.verdict == "IB"
    assert {(c.nranks, c.ranks_seen) for c in report.communicators or ()} == {(16, 16), (4, 4), (2, 2)}
