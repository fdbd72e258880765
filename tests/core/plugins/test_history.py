"""The plugin that remembers runs: anybody's, a faulty one, and none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pluggy
import pytest

from llmbx import hookimpl, hookspecs
from llmbx.config.install import Install
from llmbx.errors import PluginError, UsageError
from llmbx.model import Job, RunGroup
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Run
from llmbx.record.history import History, Selection

from ...run_factory import RunFactory, install, run_factory, spec

__all__ = ["install", "run_factory", "spec"]


@pytest.fixture
def plugins() -> Plugins:
    """No plugin at all."""
    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)
    return Plugins(registry, [])


class Walk(History):
    """A history of a third party, which reads all folders, and names runs by a tag."""

    def __init__(self, answer: Callable[[], Any] | None = None) -> None:
        self.answer = answer

    def select(self, install: Install, selection: Selection) -> list[Run]:
        if self.answer is not None:
            return self.answer()  # type: ignore[no-any-return]
        records = install.path.glob("workloads/*/experiments/*/*/*/run.json")
        runs = [Run.read(path.parent) for path in records]
        return [run for run in runs if set(selection.tags) <= set(run.record.spec.tags)]

    def all_tags(self, install: Install) -> set[str]:
        return {tag for run in self.select(install, Selection()) for tag in run.record.spec.tags}

    @hookimpl
    def register_history(self) -> History:
        return self

    @hookimpl
    def find_runs(self, install: Install, text: str) -> RunGroup | None:
        runs = self.select(install, Selection(tags=(text.lstrip("@"),)))
        return RunGroup(folders=tuple(run.folder for run in runs)) if runs else None


def test_a_history_of_a_third_party_selects_runs_and_names_them_by_tag(
    plugins: Plugins, run_factory: RunFactory, install: Install
) -> None:
    plugins.manager.register(Walk(), name="walk")
    run_factory.put([0.1] * 20)
    tagged = run_factory.put([0.1] * 20, tags=("accepted",))
    assert plugins.history.select(install, Selection(tags=("accepted",))) == [tagged]
    assert plugins.find_run(install, "@accepted") == tagged
    with pytest.raises(UsageError, match=r"no run '@acepted' \(did you mean '@accepted'\?\)"):
        plugins.find_run(install, "@acepted")


def test_without_a_history_runs_are_found_by_their_names_and_the_rest_says_what_is_missing(
    plugins: Plugins, run_factory: RunFactory, install: Install
) -> None:
    run = run_factory.put([0.1] * 20, tags=("accepted",))
    for name in ("last", run.record.id, run.record.run_id, run.folder):
        assert plugins.find_run(install, name) == run
    assert plugins.history.tags(run) == ("accepted",)
    for ask in (
        lambda: plugins.find_run(install, "@accepted"),
        lambda: plugins.history.select(install, Selection()),
        lambda: plugins.history.row(run, plugins),
    ):
        with pytest.raises(UsageError, match="no installed plugin keeps a history of runs"):
            ask()


@pytest.mark.parametrize(
    ("answer", "fault"), [(lambda: 1 / 0, "ZeroDivisionError"), (lambda: "runs", "returned a str, expected a list")]
)
def test_a_faulty_history_is_named(plugins: Plugins, tmp_path: Path, answer: Callable[[], Any], fault: str) -> None:
    plugins.manager.register(Walk(answer), name="walk")
    with pytest.raises(PluginError, match=f"plugin 'walk': select of history 'walk'.*{fault}"):
        plugins.history.select(Install(root=str(tmp_path), origin="test"), Selection())


def test_a_history_that_fails_does_not_hide_the_run_of_a_job(
    plugins: Plugins, run_factory: RunFactory, install: Install
) -> None:
    job = Job(launcher="slurm", job_id="4711", submitted=1.0)
    run = run_factory.put([0.1] * 20, record={"job": job})
    run_factory.put([0.1] * 20)
    for answer in (None, lambda: 1 / 0, lambda: [run]):
        plugins.manager.register(walk := Walk(answer), name="walk")
        assert plugins.find_run(install, "4711") == run
        plugins.manager.unregister(walk)
        del plugins.history
