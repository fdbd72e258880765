"""Find the sides of a comparison: a run with its repeats, the runs of a baseline tag, or a published row."""

from __future__ import annotations

import os
from collections.abc import Sequence

from llmbx.api import Reference, RunSpec, UsageError, Workload, did_you_mean
from llmbx.api.verbs import Install, Plugins, Run, Selection

from .comparison import EXIT_CODES
from .differences import same_setup
from .measured import Measured, MeasuredRun, known_differences, measured, work_of


class NotComparable(UsageError):
    """No run with the tag can be compared (exit code 5)."""

    exit_code = EXIT_CODES["not comparable"]


def with_repeats(install: Install, named: Run, plugins: Plugins, policy: str | None, single: bool) -> list[MeasuredRun]:
    """The run and, unless `single` is set, the valid repeats of the same command, oldest first."""
    chosen = measured(named, plugins, policy)
    group = named.record.group
    if single or group is None:
        return [chosen]
    alike = plugins.history.select(install, Selection(equal={"group": (group,)}))
    owner = named.files.owner_id
    others = [run for run in alike if run.record.run_id != named.record.run_id and run.files.owner_id == owner]
    return _oldest_first([chosen, *_valid(others, plugins, policy)])


def baseline(
    install: Install, tag: str, of: Sequence[Measured], plugins: Plugins, policy: str | None
) -> list[MeasuredRun]:
    """The newest valid run with this tag that is comparable with the runs or logs `of`, and its repeats, oldest first.

    Its repeats are the tagged runs of the same user with the same configuration, image and versions. The runs `of` are
    excluded. Runs of other users count only if the user of `of` has not used the tag: anyone can use any tag. Raises
    `UsageError` if no other run has the tag, `NotComparable` with the reasons if none of them is comparable.
    """
    newest, own = of[-1], {run.name for run in of}
    selected = plugins.history.select(install, Selection(tags=(tag,)))
    tagged = [run for run in selected if run.record.run_id not in own]
    owner = newest.run.files.owner_id if isinstance(newest, MeasuredRun) else os.geteuid()
    tagged = [run for run in tagged if run.files.owner_id == owner] or tagged
    tags = set() if tagged else plugins.history.all_tags(install)
    if tag in tags:
        raise UsageError(f"--baseline {tag}: only {newest.name} and its repeats have this tag (see --single)")
    if not tagged:
        raise UsageError(f"--baseline {tag}: no other run has this tag{did_you_mean(tag, tags)}")
    comparable = [run for run in tagged if not _work_differences(run.record.spec, newest)]
    if not comparable:
        reasons = f"({'; '.join(_work_differences(tagged[0].record.spec, newest))})"
        where = f"none of its {len(tagged)} runs is comparable with {newest.name}"
        raise NotComparable(f"--baseline {tag}: {where} {reasons}")
    valid = _valid(comparable, plugins, policy)
    if not valid:
        raise NotComparable(f"--baseline {tag}: none of its {len(comparable)} runs has valid data")
    return _oldest_first(
        [
            run
            for run in valid
            if same_setup(valid[0].record, run.record) and run.run.files.owner_id == valid[0].run.files.owner_id
        ]
    )


def _work_differences(spec: RunSpec, of: Measured) -> list[str]:
    if isinstance(of, MeasuredRun):
        return spec.work_differences(of.spec)
    return known_differences(work_of(spec), of.work)


def published(spec: RunSpec, workload: Workload) -> Reference:
    """The published row with the run's size, dtype, GPU type and scale that is most similar to the run.

    Raises `UsageError` with the available rows if there is none.
    """
    row = spec.nearest_row(workload)
    if row is None or row.step_time_s is None:
        rows = [r for r in workload.references if r.step_time_s is not None]
        what = f"{spec.workload} {spec.size} {spec.dtype} on {spec.gpus} x {spec.gpu_type}"
        available = _available_rows(spec, rows)
        raise UsageError(f"--reference: no published figures for {what}{available}: use --baseline TAG instead")
    return row


def _available_rows(spec: RunSpec, rows: Sequence[Reference]) -> str:
    if spec.mini:
        return "; a mini is not comparable with published figures"
    same = [r for r in rows if r.size == spec.size] or list(rows)
    names = list(dict.fromkeys(f"{r.size} {r.dtype} on {r.gpus} x {r.gpu_type}" for r in same))
    more = " …" if len(names) > 4 else ""
    return f" (published: {'; '.join(names[:4])}{more})" if names else ""


def _valid(candidates: Sequence[Run], plugins: Plugins, policy: str | None) -> list[MeasuredRun]:
    """The runs that have ended with valid data and measured steps."""
    runs = []
    for run in candidates:
        try:
            runs.append(measured(run, plugins, policy))
        except UsageError:
            continue
    return [run for run in runs if run.result.data_valid and run.is_measured]


def _oldest_first(found: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    return sorted(found, key=lambda item: (item.record.created, item.record.run_id))
