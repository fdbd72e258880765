"""Nodes: what is known of them, and which of them are slow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from llmbx.api import Launcher, UsageError, plural
from llmbx.api.verbs import (
    NumberAbove,
    RunCommand,
    Selection,
    format_option,
    load_workspace,
    parse_fraction,
    print_json,
    print_rows,
    run_options,
)

if TYPE_CHECKING:
    from llmbx.api.verbs import Request

    from .bisect.search import Outcome
    from .memory.standing import Standing
    from .speed.judge import SpeedReport

COLUMNS = ("node", "runs", "slower", "ci95", "slowest", "failures", "of_hardware", "changed", "suspect", "reason")


SPEED_COLUMNS = (
    "node", "measure", "unit", "value", "expected", "expected_from", "slower", "low", "high", "slow", "reason"
)  # fmt: skip
MEASURE_COLUMNS = ("measure", "unit", "nodes", "median", "slowest", "peak", "slow", "not_decided")


@click.group("nodes", invoke_without_command=True)
@click.option("--suspect", is_flag=True, help="Only nodes that are suspected.")
@click.option("--exclude-list", is_flag=True, help="Print the suspected nodes as a list for Slurm's --exclude.")
@click.option("--since", metavar="WHEN", help="Only runs that were created since then: 2026-11-20, 7d, 12h.")
@click.option("--user", metavar="NAME|all", default="all", show_default=True, help="Only the runs of this user.")
@format_option()
@click.pass_context
def command(
    context: click.Context, suspect: bool, exclude_list: bool, since: str | None, user: str, format_: str
) -> None:
    """Show what the runs of this install say about each node.

    A node is suspected if runs with it take longer than runs of the same work without it, by at least 1 % and by more
    than runs vary, or if a run failed by its hardware. Nodes that always ran together cannot be told apart: bisect
    them. What was before a change of its GPUs, by their UUIDs, does not count. "slowest" is how often the other nodes
    waited for it, of the runs in which that was measured.

    \b
    Examples:
      llmbx nodes --since 30d
      sbatch --exclude=$(llmbx nodes --exclude-list) job.sh
      llmbx nodes bisect llama3.1 --size mini --nodes n[1-16]
    """
    if context.invoked_subcommand is not None:
        return
    from .memory.attendance import attendances
    from .memory.standing import standings

    workspace = load_workspace()
    runs = workspace.plugins.history.select(workspace.install, Selection(since=since, user=user))
    known = standings(attendances(runs, workspace.plugins))
    nodes = [standing for standing in known if standing.suspect or not suspect]
    if exclude_list:
        click.echo(",".join(node.node for node in nodes if node.suspect))
    elif format_ == "json":
        print_json(nodes)
    else:
        print_rows([_row(node) for node in nodes], COLUMNS, format_, "no run has recorded its nodes")


def _row(node: Standing) -> dict[str, Any]:
    return {
        "node": node.node,
        "runs": node.runs,
        "slower": _percent(node.slower),
        "ci95": f"{_percent(node.low)} to {_percent(node.high)}" if node.slower is not None else None,
        "slowest": f"{node.slowest} of {node.compared}" if node.compared else None,
        "failures": node.failures,
        "of_hardware": node.of_hardware,
        "changed": node.changed,
        "suspect": node.suspect,
        "reason": node.reason,
    }


def _percent(fraction: float | None) -> str | None:
    return None if fraction is None else f"{100 * fraction:+.1f} %"


@command.command("speed", cls=RunCommand)
@click.option(
    "--nodes",
    "node_list",
    metavar="LIST",
    help="Nodes to measure, n1,n2 or n[01-16]. [default: this machine, or one that the scheduler chooses]",
)
@click.option(
    "--budget",
    "budget_s",
    type=NumberAbove(0),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Seconds for what a node measures alone; pairs and groups take half of that again.",
)
@format_option()
@run_options
def speed(request: Request | None, node_list: str | None, budget_s: float, format_: str) -> None:
    """Measure each node: GEMMs, copies, disk, collectives in the node, pairs and groups of nodes.

    The workload gives the environment (its PyTorch is used), the launcher and the GPUs of a node; it is not run. A
    measurement is repeated until it is precise, and compared with those of the other nodes, and with the peaks of the
    hardware. The slowest GPU of a node counts.

    Exit code: 0 no node is slow, 3 slow nodes were found, 5 not all could be judged.

    \b
    Examples:
      llmbx nodes speed llama3.1 --nodes n[01-16] --gpu-type h100
      llmbx nodes speed llama3.1 --size mini --gpus 2 --budget 10
    """
    from .speed.measure import measure_speed

    if request is None:
        raise UsageError("no workload specified: its environment has the PyTorch that measures")
    nodes = Launcher.node_names(node_list) if node_list else ()
    report = measure_speed(
        load_workspace(), request, nodes, budget_s=budget_s, say=lambda line: click.echo(f"llmbx: {line}", err=True)
    ).report
    if format_ == "json":
        print_json(report)
    else:
        rows = _speed_rows(report) if format_ == "csv" else _measures(report)
        print_rows(list(rows), SPEED_COLUMNS if format_ == "csv" else MEASURE_COLUMNS, format_)
        for row in report.rows:
            if row.reason:
                click.echo(f"{row.node}: {row.measure}: {row.reason}", err=True)
        for name, why in report.not_measured.items():
            click.echo(f"not measured: {name}: {why}", err=True)
    sys.exit(report.exit_code)


def _speed_rows(report: SpeedReport) -> Iterator[dict[str, Any]]:
    for row in report.rows:
        yield {column: getattr(row, column) for column in SPEED_COLUMNS}


def _measures(report: SpeedReport) -> Iterator[dict[str, Any]]:
    """One line for each measurement: its nodes' rates, and which of them are slow."""
    for measure in dict.fromkeys(row.measure for row in report.rows):
        rows = [row for row in report.rows if row.measure == measure]
        rates = [row.value for row in rows]
        slow = [row.node if row.slower is None else f"{row.node} ({_percent(row.slower)})" for row in rows if row.slow]
        yield {
            "measure": measure,
            "unit": rows[0].unit,
            "nodes": len(rows),
            "median": float(f"{median(rates):.4g}"),
            "slowest": float(f"{min(rates):.4g}"),
            "peak": next((row.expected for row in rows if row.slower is None), None),
            "slow": ", ".join(slow),
            "not_decided": sum(row.slow is None for row in rows),
        }


@command.command("bisect", cls=RunCommand)
@click.option("--nodes", "node_list", metavar="LIST", required=True, help="Nodes to search: n1,n2 or n[01-16,20].")
@click.option("--detect", default="3%", show_default=True, metavar="PERCENT", help="Least slowness to find.")
@click.option(
    "--spread",
    metavar="PERCENT",
    help="Standard deviation from run to run. [default: that of the install's runs, else 0.54 %]",
)
@click.option(
    "--max-runs", type=click.IntRange(min=2), metavar="N", help="Stop after N runs. [default: 8 log2 of the nodes + 16]"
)
@click.option(
    "--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True, help="Output format."
)
@run_options
def bisect(
    request: Request | None, node_list: str, detect: str, spread: str | None, max_runs: int | None, format_: str
) -> None:
    """Find the slow nodes among many by running the workload on parts of them.

    The step time of a synchronous training is that of its slowest node. All runs have the same number of nodes: a
    quarter or an eighth of all, with healthy nodes in place of those that are not tried. A run whose step time is too
    close to call is repeated. For one slow node of N about log2 N + 4 runs are needed.

    Exit code: 0 no node is slower, 3 slow nodes were found, 5 not all nodes could be told apart.

    \b
    Examples:
      llmbx nodes bisect llama3.1 --size 8b --nodes n[001-064] --steps 20
      llmbx nodes bisect grok1 --size mini --nodes n1,n2,n3,n4 --detect 5%
    """
    from .bisect.measure import Bisection

    if request is None:
        raise UsageError("no workload specified: `llmbx list` shows all workloads")
    if request.gpus is not None:
        raise UsageError("--gpus cannot be combined with bisect: it follows from --nodes")
    nodes = Launcher.node_names(node_list)
    if len(nodes) < 2:
        raise UsageError(f"--nodes {node_list}: at least two nodes are needed")
    difference = parse_fraction(detect, "--detect")
    if not difference:
        raise UsageError(f"--detect {detect}: expected more than 0 %")
    bisection = Bisection(
        load_workspace(),
        request,
        nodes,
        difference=difference,
        spread=parse_fraction(spread, "--spread") if spread else None,
        most_runs=max_runs,
    )
    outcome = bisection.run(lambda line: click.echo(f"llmbx: {line}", err=True))
    if format_ == "json":
        print_json(outcome)
    else:
        click.echo("\n".join(_sentences(outcome, detect)))
    sys.exit(3 if outcome.slow else 5 if outcome.undecided else 0)


def _sentences(outcome: Outcome, detect: str) -> list[str]:
    lines = [f"{node} is {100 * slower:.1f} % slower" for node, slower in outcome.slow.items()]
    if outcome.undecided:
        lines.append(f"not told apart after {plural(outcome.runs, 'runs')}: {', '.join(outcome.undecided)}")
    if outcome.equal:
        lines.append(f"no part of the nodes is slower than another by {detect}: none is slow, or each part has one")
    elif not outcome.slow:
        lines.append(f"no node is slower by {detect}")
    healthy = "" if outcome.equal else f"; {plural(len(outcome.healthy), 'nodes')} not slower"
    return [*lines, f"{plural(outcome.runs, 'runs')}{healthy}"]
