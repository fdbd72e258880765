"""Run a plan of scales, dtypes, sizes, settings and repeats."""

from __future__ import annotations

import functools
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmbx.api import InfraError, RunFolder, RunSpec, UsageError, plural
from llmbx.api.verbs import (
    RUN_OPTIONS,
    WORKLOAD_ARGUMENT,
    NumberAbove,
    RunCommand,
    Workspace,
    explicit_options,
    format_option,
    load_workspace,
    output_option,
    parse_fraction,
    pop_settings,
    print_note,
    print_rows,
    which_workload,
)

if TYPE_CHECKING:
    from llmbx.api import Result

    from .cells import Cell
    from .cost import Cost
    from .drive import Driver
    from .plan import CellRequest, Part
    from .state import Slot
    from .store import Sweep
    from .summary import Row as Summary

FORMATS = ("table", "json", "csv")
"""The formats of rows; those of plugins have test cases."""

LISTS = {
    "names": click.argument("names", nargs=-1, metavar="[PLUGIN] WORKLOAD [SIZE] | PLAN.toml", type=WORKLOAD_ARGUMENT),
    "recipe": click.option("--recipe", metavar="A,B", help="Recipes. [default: newest]"),
    "size": click.option("-s", "--size", metavar="A,B", help="Model sizes."),
    "dtype": click.option("--dtype", metavar="A,B", help="Dtypes."),
    "gpu_type": click.option("--gpu-type", metavar="A,B", help="GPU types."),
    "gpus": click.option(
        "--gpus", "--scale", "gpus", metavar="N,N", help="Scales: a list (64,128) or a doubling range (64-512)."
    ),
    "settings": click.option(
        "--set", "settings", multiple=True, metavar="KEY=A,B", help="Values of one setting, for example tp=1,2."
    ),
}
"""Options of `run` that take lists in a sweep."""

PLAN = ("cell", "runs", "nodes", "hours", "node_hours", "gpu_hours", "hours_from")
PLAN_CSV = ("cell", "workload", "size", "dtype", "gpu_type", "gpus", *PLAN[1:])
RESULTS = ("cell", "n", "step_time_s", "ci95", "mfu", "efficiency", "status")
EACH_NODE = ("slower", "slow", "prediction")
EACH_NODE_CSV = ("node", "slower", "slower_low", "slower_high", "slow", "predicted_step_time_s", "against_prediction")
RESULTS_CSV = (
    "cell", "workload", "size", "dtype", "gpu_type", "gpus", "repeats", "n", "status", "step_time_s", "ci95_low",
    "ci95_high", "tokens_per_s", "tokens_per_s_per_gpu", "mfu", "efficiency", "cause",
)  # fmt: skip


def _plan_options(function: Any) -> Any:
    """Add the options of `run`; those in `LISTS` replace the options of the same name."""
    for name, option in reversed({**RUN_OPTIONS, **LISTS}.items()):
        if name in RUN_OPTIONS:
            function = option(function)
    return function


@click.command("sweep", cls=RunCommand)
@click.option("--repeats", type=click.IntRange(min=1), metavar="N", help="Number of runs of every cell. [default: 1]")
@click.option("--dry-run", is_flag=True, help="Print the plan with its node-hours and GPU-hours, and exit.")
@click.option(
    "--max-jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Most jobs in the queue at a time. [default: 100; local: 1]",
)
@click.option(
    "--max-gpu-hours",
    type=NumberAbove(0, or_equal=True),
    metavar="H",
    help="Reject a plan that takes more than H GPU-hours.",
)
@click.option(
    "--resume", is_flag=False, flag_value="last", metavar="[SWEEP]", help="Resume a sweep: run what is missing."
)
@click.option("--failed", is_flag=True, help="With --resume: also rerun failed runs.")
@click.option("--show", is_flag=False, flag_value="last", metavar="[SWEEP]", help="Print the results so far.")
@click.option(
    "--each-node",
    metavar="LIST",
    help="Run each cell on each of these nodes alone, and compare them: n1,n2 or n[01-16].",
)
@click.option("--offline", is_flag=True, help="Do not download anything.")
@click.option("--tolerance", default="5%", show_default=True, help="Allowed slowdown against the published step time.")
@output_option
@format_option(cases=True)
@_plan_options
def command(
    repeats: int | None, dry_run: bool, max_jobs: int | None, max_gpu_hours: float | None, resume: str | None,
    failed: bool, show: str | None, offline: bool, tolerance: str, output: Path | None, format_: str, **plan: Any,
) -> None:  # fmt: skip
    """Run every cell of a plan with its repeats, and print one result per cell.

    Options take comma-separated lists; the cells are the product of all lists. A plan file is the same in TOML; it can
    also contain values with commas and several products. All cells are checked before the first one is submitted.
    --resume continues a sweep that was interrupted or killed. SWEEP is the id of a sweep, a unique prefix of it, or
    "last" (the default). A sweep that was started with --output is resumed and shown with the same --output.

    --format junit prints JUnit XML with a test case for each cell, for CI servers.

    \b
    Examples:
      llmbx sweep llama3.1 --gpu-type h100 --size 8b --gpus 8-64 --dtype bf16,fp8 --repeats 3 --dry-run
      llmbx sweep grok1 --size mini --gpus 1,2 --set mbs=1,2
      llmbx sweep plan.toml --max-jobs 500 --max-gpu-hours 2000
      llmbx sweep --resume
      llmbx sweep llama3.1 --size 8b --gpus 8 --steps 30 --each-node n[01-16]
    """

    allowed = parse_fraction(tolerance, "--tolerance")
    workspace = load_workspace(output)
    if resume is not None or show is not None:
        sweep = _existing(workspace, str(resume or show), plan)
        if resume is None or dry_run:
            _print_results(sweep, _results(workspace, sweep), format_, workspace, allowed)
            return
        _check_owner(workspace, sweep)
    elif failed:
        raise UsageError("--failed requires --resume")
    else:
        cells, name = _new_cells(workspace, plan, repeats, dry_run)
        costs = [_cost(cell, workspace) for cell in cells]
        if dry_run:
            if format_ not in FORMATS:
                raise UsageError(f"--format {format_} cannot be combined with --dry-run: there is no result to report")
            _print_plan(cells, costs, format_)
            _require_below(costs, max_gpu_hours)
            return
        _require_below(costs, max_gpu_hours)
        sweep = _create(workspace, name, cells, max_jobs)
    results = _drive(workspace, sweep, max_jobs or sweep.max_jobs, failed, offline, resumed=resume is not None)
    rows = _print_results(sweep, results, format_, workspace, allowed)
    sys.exit(_exit_code(sweep, results, workspace, allowed) or (3 if any(row.slow for row in rows) else 0))


def _existing(workspace: Workspace, text: str, plan: dict[str, Any]) -> Sweep:
    from . import store

    if explicit_options(click.get_current_context(), plan):
        raise UsageError("--resume and --show cannot be combined with a workload, a plan or options of the plan")
    return store.find(workspace.install, text)


def _check_owner(workspace: Workspace, sweep: Sweep) -> None:
    """Raise `UsageError` for the sweep of another user, whose plan has the commands that would run."""
    from . import store

    place = RunFolder(path=store.folder(workspace.install, sweep))
    if not place.own:
        raise UsageError(f"{sweep.sweep_id} belongs to {place.owner}, who alone can resume it; --show shows it")


def _new_cells(
    workspace: Workspace, plan: dict[str, Any], repeats: int | None, dry_run: bool
) -> tuple[tuple[Cell, ...], str]:
    from .cells import resolve_cells

    requests, name = _read_plan(plan, repeats, workspace)
    return resolve_cells(requests, lambda request: _check(request, workspace, dry_run)), name


def _read_plan(plan: dict[str, Any], repeats: int | None, workspace: Workspace) -> tuple[list[CellRequest], str]:
    """The cells of the plan and its name, from a plan file or from the options."""
    from .plan import expand, read_plan

    names = plan["names"]
    if len(names) == 1 and names[0].endswith(".toml"):
        if others := explicit_options(click.get_current_context(), {"repeats", *plan} - {"names"}):
            raise UsageError(f"{', '.join(others)} cannot be combined with a plan file; set them in {names[0]}")
        return read_plan(Path(names[0]), workspace.plugins.settings), Path(names[0]).stem
    if not names and not plan["workload"]:
        raise UsageError("no workload or plan given; `llmbx list` shows the workloads")
    part = _part(plan, repeats)
    return expand(part), str(part.workload)


def _part(plan: dict[str, Any], repeats: int | None) -> Part:
    """The options as a part of a plan."""
    from llmbx.api.verbs import check_tags, parse_pairs

    from .plan import Part

    rest = dict(plan)
    rest["workload"], rest["plugin"] = which_workload(rest.pop("names"), rest.pop("workload"), rest["plugin"])
    for key in ("recipe", "size", "dtype", "gpu_type", "gpus"):
        rest[key] = tuple(_list(f"--{key.replace('_', '-')}", rest[key])) if rest[key] is not None else None
    pairs = parse_pairs("--set", rest.pop("settings"))
    rest["set"] = {key: tuple(value.split(",")) for key, value in pairs.items()}
    rest["env"] = parse_pairs("--env", rest["env"])
    rest["plugin_keys"] = pop_settings(rest)
    rest["tags"] = check_tags(rest["tags"])
    return Part(repeats=repeats, with_=rest.pop("wrappers"), **rest)


def _list(option: str, text: str) -> list[str]:
    values = [value.strip() for value in text.split(",")]
    if not all(values):
        raise UsageError(f"{option} {text!r}: expected comma-separated values")
    return values


def _check(cell: CellRequest, workspace: Workspace, dry_run: bool) -> RunSpec:
    """Resolve a cell and run all checks that are possible before it is started."""
    from llmbx.api.verbs import Runner

    spec, force = _placed(workspace.resolve(cell.request), cell.node, workspace), cell.request.force
    if dry_run:
        spec, runner = Runner.enter(spec, workspace.plugins, workspace.install, preview=True)
    else:
        spec, runner = Runner.enter_here(spec, workspace.plugins, workspace.install, force)
        if why := runner.launcher.available():
            raise InfraError(why)
    spec = runner.admit(spec, runner.findings(spec, here=not dry_run), force)
    runner.plan(spec)
    return spec


def _placed(spec: RunSpec, node: str | None, workspace: Workspace) -> RunSpec:
    """The cell on its node. Raises `UsageError` if it needs several, or if the launcher cannot choose nodes."""
    if node is None:
        spec, left_out = workspace.without_suspects(spec, "sweep")
        for line in left_out:
            _say_once(line)
        return spec
    if spec.nodes != 1:
        raise UsageError(f"--each-node: a cell of {spec.nodes} nodes cannot run on {node} alone; see --gpus")
    placed = workspace.plugins.launcher(spec.launcher).on_nodes(spec, (node,))
    if placed is None:
        raise UsageError(f"the launcher {spec.launcher} cannot choose nodes: use one of a cluster (--launcher)")
    return placed


@functools.cache
def _say_once(line: str) -> None:
    """Print a line about nodes once for all cells."""
    print_note(line)


def _cost(cell: Cell, workspace: Workspace) -> Cost:
    from .cost import cost

    def published(spec: RunSpec) -> float | None:
        row = spec.exact_row(workspace.plugins.workload(spec.workload, spec.plugin))
        return row.step_time_s if row else None

    return cost(cell, published)


def _require_below(costs: list[Cost], limit: float | None) -> None:
    from .cost import require_below

    if limit is not None:
        require_below(costs, limit)


def _create(workspace: Workspace, name: str, cells: tuple[Cell, ...], max_jobs: int | None) -> Sweep:
    from .store import MAX_JOBS, create

    sweep = create(workspace.install, name, tuple(sys.argv[1:]), cells, max_jobs or MAX_JOBS)
    counts = f"{plural(len(cells), 'cells')}, {plural(sweep.runs, 'runs')}"
    click.echo(f"sweep {sweep.sweep_id}: {counts}", err=True)
    return sweep


def _drive(
    workspace: Workspace, sweep: Sweep, max_jobs: int, failed: bool, offline: bool, resumed: bool
) -> dict[Slot, Result]:
    """Run the sweep to its end. Ctrl-C does not cancel submitted jobs; it prints how to resume."""
    from llmbx.api.verbs import Runner

    from . import drive, start, state, store
    from .progress import SweepProgress

    runners = {cell.key: Runner.enter(cell.spec, workspace.plugins, workspace.install)[1] for cell in sweep.cells}
    runner = runners[sweep.cells[0].key]
    with RunFolder(path=store.folder(workspace.install, sweep)).driven():
        progress = SweepProgress(sweep.runs)
        current = state.wait_for_state(sweep, runner, progress.note, failed)
        if current.done or current.running:
            counts = f"{len(current.done)} done, {len(current.running)} running, {len(current.missing)} to submit"
            progress.note(counts)
        starter = start.Starter(sweep, runners, offline)
        starter.prepare([key for key, _ in current.missing], progress.note)
        driver = drive.Driver(starter, current, runner, progress, max_jobs, patient=resumed, retry_failed=failed)
        try:
            return driver.run()
        except KeyboardInterrupt:
            progress.note(_how_to_resume(workspace, sweep, driver))
            raise
        except InfraError as error:
            hint = _how_to_resume(workspace, sweep, driver)
            raise InfraError(f"{error}; {hint}") from error


def _how_to_resume(workspace: Workspace, sweep: Sweep, driver: Driver) -> str:
    install, end = workspace.install, ""
    if install.workload_origin == "--output":
        end = f" --output {shlex.quote(str(install.workload_root))}"
    return (f"{len(driver.running)} submitted, {len(driver.pending)} not submitted; "
            f"resume with: llmbx sweep --resume {sweep.sweep_id}{end}; "
            f"results so far: llmbx sweep --show {sweep.sweep_id}{end}")  # fmt: skip


def _results(workspace: Workspace, sweep: Sweep) -> dict[Slot, Result]:
    from .state import results

    return results(workspace.install, sweep)


def _print_plan(cells: tuple[Cell, ...], costs: list[Cost], format_: str) -> None:
    from .cost import total

    rows = [_plan_row(cell, cost, format_ == "table") for cell, cost in zip(cells, costs, strict=True)]
    print_rows(rows, PLAN_CSV if format_ == "csv" else PLAN, format_)
    runs = sum(cell.repeats for cell in cells)
    unknown = total(costs, "node_hours")[1]
    sums = [f"{_format_total(costs, member)} {member.replace('_', '-').replace('gpu', 'GPU')}"
            for member in ("node_hours", "gpu_hours")]  # fmt: skip
    more = f"; hours unknown for {unknown} cells without a published step time or --walltime" if unknown else ""
    counts = f"{plural(len(cells), 'cells')}, {plural(runs, 'runs')}"
    click.echo(f"{counts}, {', '.join(sums)}{more}", err=True)


def _plan_row(cell: Cell, cost: Cost, rounded: bool) -> dict[str, Any]:
    spec = cell.spec
    hours = {key: getattr(cost, key) for key in ("hours", "node_hours", "gpu_hours")}
    return {
        "cell": cell.key, "workload": spec.workload, "size": spec.size, "dtype": spec.dtype,
        "gpu_type": spec.gpu_type, "gpus": spec.gpus, "settings": cell.settings, "part": cell.part,
        "runs": cell.repeats, "nodes": cost.nodes,
        **({key: None if value is None else _hours(value) for key, value in hours.items()} if rounded else hours),
        "hours_from": cost.source,
    }  # fmt: skip


def _format_total(costs: list[Cost], member: str) -> str:
    from .cost import total

    hours, unknown = total(costs, member)
    if unknown == len(costs):
        return "unknown"
    return f"{'at least ' if unknown else ''}{_hours(hours):,}"


def _hours(value: float) -> float:
    """Round to three significant digits; from 100 on, to whole hours."""
    return round(value) if value >= 100 else float(f"{value:.3g}")


def _print_results(
    sweep: Sweep, results: dict[Slot, Result], format_: str, workspace: Workspace, allowed: float
) -> list[Summary]:
    """Print a row for each cell, and return the rows."""
    import msgspec

    from .summary import summarize

    summaries = summarize(sweep.cells, results)
    if any(cell.node for cell in sweep.cells):
        from .each_node import compared

        summaries = compared(sweep.cells, summaries, results, lambda spec: workspace.expected(spec)[0])
    if format_ not in FORMATS:
        from .cases import print_cells

        print_cells(format_, sweep.cells, results, summaries, workspace, allowed)
        return summaries
    if format_ == "table":
        each = EACH_NODE if any(row.node for row in summaries) else ()
        print_rows([_result_row(row) for row in summaries], (*RESULTS, *each), format_)
        for row in summaries:
            if row.status not in ("completed", "missing"):
                print_note(f"{row.cell}: {row.status}: {row.cause}")
    else:
        rows = [{**msgspec.to_builtins(row)} for row in summaries]
        print_rows(rows, (*RESULTS_CSV, *EACH_NODE_CSV) if any(row.node for row in summaries) else RESULTS_CSV, format_)
    return summaries


def _result_row(row: Summary) -> dict[str, Any]:
    half = (row.ci95_high - row.ci95_low) / 2 if row.ci95_high is not None and row.ci95_low is not None else None
    return {
        "cell": row.cell, "n": f"{row.n}/{row.repeats}", "step_time_s": row.step_time_s,
        "ci95": None if half is None else f"± {half:.3g}", "mfu": row.mfu, "efficiency": row.efficiency,
        "status": row.status, "slow": row.slow, "prediction": row.against_prediction,
        "slower": None if row.slower is None else f"{100 * row.slower:+.1f} %",
    }  # fmt: skip


def _exit_code(sweep: Sweep, results: dict[Slot, Result], workspace: Workspace, allowed: float) -> int:
    """The exit code of the worst run, as for `run --repeat`."""
    specs = {cell.key: cell.spec for cell in sweep.cells}
    cells: dict[str, list[Result]] = {}
    for (key, _), result in results.items():
        cells.setdefault(key, []).append(result)
    codes = {workspace.exit_code(results_of_cell, specs[key], allowed) for key, results_of_cell in cells.items()}
    return next((code for code in (130, 4, 1, 5, 3) if code in codes), 0)
