"""The items that train: each run is started, or found again by its group, and followed to its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmbx.api import LlmbxError, Result, RunSpec
from llmbx.api.verbs import Run, RunCall, Runner, RunProgress, refresh_result

from ..criteria import judged_outcome, rates_of
from ..item import Item, Kind, Outcome, Site


class Workload(Kind):
    """Runs a workload on some of the nodes, with its repeats."""

    def hours(self, item: Item, site: Site) -> tuple[float | None, str]:
        """By the published step time, else by the prediction, else by the time limit."""
        assert item.spec is not None
        hours, source = run_hours(item.spec, site)
        return (None if hours is None else hours * item.repeats), source

    def check(self, item: Item, site: Site) -> Outcome:
        """Do the runs that are missing, and judge them all."""
        site.results[item.key] = [self._result(item, number, site) for number in range(1, item.repeats + 1)]
        return _outcome(item, site)

    def derive(self, item: Item, outcome: Outcome, results: Sequence[Result], site: Site) -> Outcome | None:
        """Judge the results by the criteria again."""
        return _outcome(item, site) if item.spec is not None and results else None

    def _result(self, item: Item, number: int, site: Site) -> Result:
        assert item.spec is not None
        group = group_of(site, item, number)
        result = earlier(item.spec, group, site)
        if result is None:
            call = RunCall(item.spec, site.workspace, None, None, 1, False, site.offline, False, 1.0, "json")
            result = call.measure(item.spec, group)
        if result.status == "cancelled" and result.exit_code == 130:
            raise KeyboardInterrupt
        return result


def _outcome(item: Item, site: Site) -> Outcome:
    """The outcome of an item by the results of its runs, and by those of the same work at other scales."""
    assert item.spec is not None
    row = item.spec.exact_row(site.workspace.plugins.workload(item.spec.workload, item.spec.plugin))
    return judged_outcome(item, site.results[item.key], row, rates_of(site.results, site.items))


def run_hours(spec: RunSpec, site: Site) -> tuple[float | None, str]:
    """The expected hours of one run without queue and start, and where they are from."""
    row = spec.exact_row(site.workspace.plugins.workload(spec.workload, spec.plugin))
    if row is not None and row.step_time_s is not None:
        return spec.steps * row.step_time_s / 3600, "published step time"
    predicted = site.workspace.expected(spec)[0].step_time_s.value
    if predicted is not None:
        return spec.steps * predicted / 3600, "predicted step time"
    if spec.walltime_minutes is not None:
        return spec.walltime_minutes / 60, "time limit"
    return None, "unknown"


def group_of(site: Site, item: Item, number: int) -> str:
    """What the record of a run says about its place in the acceptance."""
    return f"{site.acceptance} {item.key} #{number}"


def earlier(spec: RunSpec, group: str, site: Site) -> Result | None:
    """The result of the run with this group: one that still runs is followed to its end. None: it is to be started."""
    for run in _runs(spec, group, site):
        result = refresh_result(run, site.workspace.plugins)
        if result is None:
            result = _follow(run, site)
        attended = site.workspace.plugins.launcher(spec.launcher).attended
        if result.status != "cancelled" and not (result.status == "lost" and attended):
            return result
    return None


def _follow(run: Run, site: Site) -> Result:
    runner = Runner.of(run, site.workspace.plugins, site.workspace.install)
    progress = RunProgress(run.record.spec)
    progress.note(f"goes on with {run.record.id}")
    try:
        return runner.attend(runner.take_over(run) or run, progress)
    finally:
        progress.close()


def _runs(spec: RunSpec, group: str, site: Site) -> Iterator[Run]:
    """The runs of this group in folders of this user, newest first."""
    base = site.workspace.install.experiments(spec.folder) / spec.experiment
    for folder in sorted(base.glob("*/*"), key=lambda path: path.parent.name, reverse=True):
        try:
            run = Run.read(folder)
        except LlmbxError:
            continue
        if run.files.own and run.record.group == group and run.record.created >= site.since:
            yield run


KIND = Workload()
