"""Training logs that plugins read for other verbs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pluggy
import pytest

from llmbx import hookspecs
from llmbx.errors import UsageError
from llmbx.plugins.manager import Plugins

from .conftest import Package

READER = """
from llmbx.api import Result, TrainingLog, hookimpl

class Mine(TrainingLog):
    window, unread, failure = "auto", None, None

    def __init__(self, path):
        self.path, self.run_dir, self.format, self.steps = str(path), None, "mine", ()

    def lines(self):
        return []

    def last_words(self, rank):
        return None

    def measure(self, window):
        raise NotImplementedError

@hookimpl
def read_logs(path):
    return [Mine(path)] if path.suffix == ".mine" else None
"""


def test_a_third_party_reads_its_logs_and_leaves_the_others(
    package: Package, loaded: Callable[[], Plugins], tmp_path: Path
) -> None:
    package("mine", READER)
    plugins = loaded()
    (log,) = plugins.read_logs(tmp_path / "a.mine")
    assert (log.path, log.format) == (str(tmp_path / "a.mine"), "mine")
    with pytest.raises(UsageError, match=r"a\.log: no such file or folder"):
        plugins.read_logs(tmp_path / "a.log")


def test_without_a_plugin_that_reads_logs_this_is_said() -> None:
    manager = pluggy.PluginManager("llmbx")
    manager.add_hookspecs(hookspecs)
    with pytest.raises(UsageError, match=r"^a\.log was not read: no installed plugin reads training logs$"):
        Plugins(manager, []).read_logs(Path("a.log"))
