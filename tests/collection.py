"""A pytest plugin: test processes that run side by side share the work of compiling the tests.

Each of them imports all test modules. Most of that time is pytest's rewriting of their assertions, which it keeps in
`__pycache__`. Each process therefore begins at another place, uses what the others have kept, and puts the tests in
their usual order at the end: the checks of the whole code, of which one takes a processor for a quarter of a minute
and cannot be shared, come first, and others then run beside them.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest

LONGEST = "test_house.py"


class Share:
    """The place at which one of several processes begins to collect."""

    def __init__(self, number: int, count: int) -> None:
        self.number, self.count = number, count

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        """Keep what is compiled, also where other programs should not."""
        unwritten, sys.dont_write_bytecode = sys.dont_write_bytecode, False
        try:
            return (yield)
        finally:
            sys.dont_write_bytecode = unwritten

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Begin within each folder at another place."""
        report = yield
        if isinstance(collector, pytest.Directory) and report.result:
            first = self.number * len(report.result) // self.count
            report.result = [*report.result[first:], *report.result[:first]]
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort the tests by their files, the longest first; those of a file are in their order."""
        items.sort(key=lambda item: (item.path.name != LONGEST, item.path))


def pytest_configure(config: pytest.Config) -> None:
    """Share among the processes that pytest-xdist starts."""
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    if given is not None:
        config.pluginmanager.register(Share(int(given["workerid"][2:]), int(given["workercount"])), "llmbx-share")
