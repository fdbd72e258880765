"""Accept a cluster, a node or a machine by a suite."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmbx.api import GpuType, Launcher, UsageError, plural
from llmbx.api.verbs import (
    Case,
    OutputPath,
    Request,
    Workspace,
    format_option,
    load_workspace,
    output_option,
    print_cases,
    print_json,
    print_note,
    print_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmbx.api import Result

    from .suite.item import Item, Outcome, Site
    from .suite.store import Acceptance
    from .suite.verdict import Summary

PLAN = ("item", "checks", "gpus", "hours", "gpu_hours", "hours_from")
COLUMNS = ("item", "verdict", "reason")
CSV = ("item", "kind", "verdict", "reason", "expected_gpu_hours", "used_gpu_hours", "runs")
FORMATS = ("table", "json", "csv")
PAGE = "report.html"


@click.command("accept")
@click.argument("suite", metavar="SUITE|FILE.toml")
@click.option("--plan", is_flag=True, help="Print the plan with its GPU-hours, and exit.")
@click.option("--nodes", "node_list", metavar="LIST", help="Nodes to accept: n1,n2 or n[01-16,20].")
@click.option(
    "--gpus",
    "--scale",
    type=click.IntRange(min=1),
    metavar="N",
    help="All GPUs, in place of --nodes.",
)
@click.option("--gpu-type", metavar="TYPE", help="GPU type. [default: of the cluster, else of this machine]")
@click.option("--gpus-per-node", type=click.IntRange(min=1), metavar="N", help="GPUs of a node.")
@click.option("--cluster", metavar="NAME", help="Cluster profile.")
@click.option("--launcher", metavar="NAME", help="Launcher.")
@click.option("--runtime", metavar="NAME", help="Runtime.")
@click.option("--new", is_flag=True, help="Begin again, in place of going on with the last call.")
@click.option("--failed", is_flag=True, help="Also repeat items that did not pass.")
@click.option("--offline", is_flag=True, help="Do not download anything.")
@click.option("--html", type=OutputPath(dir_okay=False), metavar="FILE", help="Write the report to FILE, too.")
@click.option(
    "--archive",
    type=OutputPath(dir_okay=False),
    metavar="FILE",
    help="Write logs, configurations, facts and results to FILE (.tar.gz), for `llmbx verify`.",
)
@output_option
@format_option(cases=True)
def command(
    suite: str,
    plan: bool,
    node_list: str | None,
    gpus: int | None,
    new: bool,
    failed: bool,
    offline: bool,
    html: Path | None,
    archive: Path | None,
    output: Path | None,
    format_: str,
    **place: Any,
) -> None:
    """Check a cluster by a suite: nodes, then workloads over scales, with a verdict for each item.

    SUITE is smoke (one node, ten minutes), node (every node by itself), scaling (from one node to all), exemplar (57
    cells at 512 GPUs, by GPU type), or the path of a TOML file. The plan with its GPU-hours is shown first. A second
    call goes on where the first one ended. An item passes only if it was measured and reaches all of its criteria.
    Without a GPU the workloads are minis.

    Exit code: 0 each item passed, 1 a run failed, 3 a criterion is missed, 4 infrastructure, 5 something was not
    checked.

    \b
    Examples:
      llmbx accept smoke
      llmbx accept scaling --nodes n[001-064] --plan
      llmbx accept exemplar --cluster gpus --archive exemplar.tar.gz
    """
    from .suite.definition import read_suite
    from .suite.plan import items_of

    name, definition = read_suite(suite)
    workspace = load_workspace(output)
    site = _site(workspace, node_list, gpus, definition.needs_all, offline, place)
    items = items_of(definition, site)
    if plan:
        _print_plan(items, site, format_)
        return
    acceptance, started = _begin(workspace, name, definition.title, definition.source, items, site, new)
    if started:
        _print_plan(items, site, "table", to_stderr=True)
    _carry_out(workspace, acceptance, site, failed, html, archive, format_)


def _site(
    workspace: Workspace,
    node_list: str | None,
    gpus: int | None,
    needs_all: bool,
    offline: bool,
    place: dict[str, Any],
) -> Site:
    """Where the suite runs, from the options, the cluster profile, and what this machine has."""
    from .suite.item import Site

    if node_list and gpus:
        raise UsageError("--gpus cannot be combined with --nodes: it follows from them")
    request = Request(workload="", **{key: value for key, value in place.items() if value is not None})
    nodes = Launcher.node_names(node_list) if node_list else ()
    gpu_type, per_node = _machine(workspace, request)
    if needs_all and not nodes and gpus is None and _on_cluster(workspace, request):
        raise UsageError("the suite goes up to all nodes: name them (--nodes n[001-064]), or their GPUs (--gpus N)")
    request = request.replace(gpus_per_node=min(per_node, gpus or per_node))
    count = len(nodes) or (-(-gpus // per_node) if gpus else 1)
    if gpus and gpus % min(gpus, per_node):
        raise UsageError(f"--gpus {gpus}: expected a multiple of the {per_node} GPUs of a node")
    return Site(
        workspace=workspace,
        request=request,
        nodes=nodes,
        gpu_type=gpu_type,
        gpus_per_node=min(per_node, gpus or per_node),
        node_count=count,
        offline=offline,
        say=lambda line: click.echo(f"llmbx: {line}", err=True),
    )


def _on_cluster(workspace: Workspace, request: Request) -> bool:
    """Whether the runs go to a scheduler."""
    profile = workspace.profile(request)
    name = request.launcher or (profile.cluster.launcher if profile else None)
    return name is not None and workspace.plugins.launcher(name).remote


def _machine(workspace: Workspace, request: Request) -> tuple[str, int]:
    """The GPU type and the GPUs of a node. Raises `UsageError` if the number is not known."""
    profile = workspace.profile(request)
    cluster = profile.cluster if profile else None
    types = GpuType.extend(workspace.config.gpus)
    here = GpuType.detect(types)
    kind = request.gpu_type or os.environ.get("GPU_TYPE") or (cluster.gpu_type if cluster else None)
    if kind is None:
        kind = here[0] if here and not _on_cluster(workspace, request) else "cpu"
    named = GpuType.named(kind.lower(), types)
    count = request.gpus_per_node or (cluster.gpus_per_node if cluster else None)
    if count is None and here and here[0] == named.name and not _on_cluster(workspace, request):
        count = here[1]
    count = count or (1 if named.name == "cpu" else named.gpus_per_node)
    if count is None:
        raise UsageError(f"the number of {named.name} GPUs of a node is not known: add --gpus-per-node N")
    return named.name, count


def _begin(
    workspace: Workspace,
    suite: str,
    title: str,
    source: str | None,
    items: Sequence[Item],
    site: Site,
    new: bool,
) -> tuple[Acceptance, bool]:
    """The acceptance to go on with, and whether it is new."""
    from .suite.store import Acceptance, Store

    store = Store(workspace.install)
    latest = None if new else store.latest(suite, items)
    if latest is not None:
        done = len(store.outcomes(latest))
        print_note(f"goes on with {latest.acceptance_id}: {done} of {plural(len(items), 'items')} done (--new: again)")
        return latest, False
    acceptance = Acceptance(
        acceptance_id="",
        suite=suite,
        title=title,
        source=source,
        created=0.0,
        llmbx_version="",
        command=tuple(sys.argv[1:]),
        gpu_type=site.gpu_type,
        nodes=site.nodes,
        items=tuple(items),
    )
    return store.create(acceptance), True


def _carry_out(
    workspace: Workspace,
    acceptance: Acceptance,
    site: Site,
    failed: bool,
    html: Path | None,
    archive: Path | None,
    format_: str,
) -> None:
    """Check what is missing, write the report, print the verdicts, and exit."""
    from .suite import drive, page
    from .suite.store import Store
    from .suite.verdict import exit_code, summarize

    store = Store(workspace.install)
    site = dataclasses.replace(site, acceptance=acceptance.acceptance_id)
    try:
        outcomes = drive.drive(acceptance, site, store, failed)
    except KeyboardInterrupt:
        site.say("stopped; the same command goes on")
        raise
    results = drive.results_of(outcomes, workspace)
    items = acceptance.items
    summary = summarize(acceptance.acceptance_id, acceptance.suite, acceptance.gpu_type, items, outcomes, results)
    report = store.folder(acceptance.acceptance_id).path / PAGE
    sections = page.sections(summary, items, outcomes, results)
    for path in (report, *([html] if html else [])):
        workspace.plugins.write_sections(path, f"Acceptance: {acceptance.title}", sections)
    _print(summary, outcomes, results, format_)
    site.say(f"report: {html or report}")
    if archive is not None:
        from .archive.write import write

        site.say(write(archive, acceptance, outcomes, workspace))
    sys.exit(exit_code(items, outcomes))


def _print_plan(items: Sequence[Item], site: Site, format_: str, to_stderr: bool = False) -> None:
    if format_ not in FORMATS:
        raise UsageError(f"--format {format_} cannot be combined with --plan: there is no result to report")
    rows = [_plan_row(item, rounded=format_ == "table") for item in items]
    if to_stderr:
        for row in rows:
            hours = "unknown" if row["gpu_hours"] is None else f"{row['gpu_hours']:g}"
            click.echo(f"  {row['item']}: {hours} GPU-hours ({row['hours_from']})", err=True)
    else:
        print_rows(rows, PLAN, format_)
    known = [item.gpu_hours for item in items if item.gpu_hours is not None]
    unknown = len(items) - len(known)
    total = f"{'at least ' if unknown and known else ''}{sum(known):,.3g}" if known else "unknown"
    more = f"; unknown for {plural(unknown, 'items')}" if unknown else ""
    where = "CPUs" if site.gpu_type == "cpu" else f"{max(item.gpus for item in items)} x {site.gpu_type}"
    click.echo(
        f"{plural(len(items), 'items')} on {where}: {total} GPU-hours without queue and start{more}",
        err=True,
    )
    if any(item.spec is not None and item.spec.mini for item in items):
        from .suite.page import MINI

        print_note(MINI)


def _plan_row(item: Item, rounded: bool) -> dict[str, Any]:
    hours = {"hours": item.hours, "gpu_hours": item.gpu_hours}
    return {
        "item": item.key,
        "kind": item.kind,
        "checks": _checks(item),
        "gpus": item.gpus,
        "repeats": item.repeats,
        **{key: float(f"{value:.3g}") if rounded and value is not None else value for key, value in hours.items()},
        "hours_from": item.hours_from,
    }


def _checks(item: Item) -> str:
    """The criteria in words."""
    asked = item.criteria
    return ", ".join(
        text
        for text in (
            "valid runs" if item.spec is not None else "",
            f"{100 * asked.published:g} % of published" if asked.published is not None else "",
            "within prediction" if asked.predicted else "",
            f"efficiency {100 * asked.efficiency:g} %" if asked.efficiency is not None else "",
            f"at most {plural(asked.suspects, 'suspects')}" if asked.suspects else "",
            "no suspect" if asked.suspects == 0 else "",
        )
        if text
    )


def _print(
    summary: Summary,
    outcomes: Mapping[str, Outcome],
    results: Mapping[str, Sequence[Result]],
    format_: str,
) -> None:
    from .suite.page import sentence

    if format_ == "json":
        print_json({"summary": summary, "outcomes": [outcome.replace(evidence={}) for outcome in outcomes.values()]})
    elif format_ in FORMATS:
        rows = [{name: getattr(row, name) for name in CSV} for row in summary.rows]
        print_rows(rows, COLUMNS if format_ == "table" else CSV, format_)
    else:
        print_cases(
            format_,
            "llmbx accept",
            [_case(row.item, outcomes.get(row.item), results) for row in summary.rows],
        )
    for node, why in summary.exclude.items() if format_ == "table" else ():
        click.echo(f"exclude {node}: {why}")
    click.echo(sentence(summary), err=True)


def _case(name: str, outcome: Outcome | None, results: Mapping[str, Sequence[Result]]) -> Case:
    """The item as a test case; what was not checked is an error, because CI servers take a skipped one for good."""
    times = [result.timing.total_s for result in results.get(name, ())]
    case = Case(
        name=name,
        about="acceptance",
        time_s=sum(time for time in times if time is not None) if times else None,
    )
    if outcome is None or outcome.verdict == "not checked":
        return case.replace(outcome="error", type="not checked", message=outcome.reason if outcome else "not run")
    return case if outcome.verdict == "pass" else case.replace(outcome="failure", type="fail", message=outcome.reason)
