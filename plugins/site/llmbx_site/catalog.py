"""Compare the catalog's configurations with upstream's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmbx.api import ExpectedConfiguration, UsageError
from llmbx.api.verbs import (
    RUN_ARGUMENT,
    RUN_OPTIONS,
    Verbs,
    Workspace,
    format_option,
    load_workspace,
    print_json,
    print_rows,
)

if TYPE_CHECKING:
    from llmbx.api import RunSpec
    from llmbx.api.verbs import Request

    Compared = tuple[RunSpec, ExpectedConfiguration, dict[str, Any]]
    """A specification, what its configuration should be, and what it is."""

DIFFERENT = 1
COLUMNS = ("key", "upstream", "final", "permitted_because")

SELECTION = (
    "names",
    "workload",
    "plugin",
    "size",
    "dtype",
    "gpu_type",
    "gpus",
    "recipe",
    "steps",
    "settings",
)
"""The options of `llmbx run` that select a configuration."""

SELECTED = ("plugin", "workload", "size", "dtype", "gpu_type", "gpus", "recipe", "steps")
"""The fields of a specification that these options set, without `--set`."""

SINGLE = ("size", "dtype", "gpu_type", "gpus", "steps", "settings")
"""The fields that select one configuration of a workload."""


def _selection(function: Callable[..., Any]) -> Callable[..., Any]:
    for name in reversed(SELECTION):
        function = RUN_OPTIONS[name](function)
    return function


@click.group("catalog", cls=Verbs, within="catalog")
def command() -> None:
    """Compare the catalog's configurations with upstream's; plugins add more commands."""


@command.command("diff")
@click.option(
    "--run",
    "run_name",
    metavar="RUN",
    type=RUN_ARGUMENT,
    help="Compare the configuration that this run trained with.",
)
@click.option(
    "--source",
    metavar="CHECKOUT",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Build it with the framework in this source tree.",
)
@format_option()
@_selection
@click.pass_context
def diff(
    context: click.Context,
    /,
    run_name: str | None,
    source: Path | None,
    format_: str,
    **arguments: Any,
) -> None:
    """Compare the framework's final configuration with upstream's, field by field.

    The final configuration is what the framework trains with after it has changed it. It is built
    on the CPU of this machine, in an environment with the version in the recipe's image, without
    training; the environment is built on first use. With --run it is the configuration that rank 0
    of this run wrote to configs/final.json.

    The output has the differing fields: those without a reason first, then those in which the
    catalog permits a difference. JSON has all values: configuration, final, upstream (null if
    unknown), differences, permitted. If upstream's configuration is not known, the values that
    llmbx's launch sets are compared in its place.

    With nothing but a workload, or a recipe of it, all of its published configurations are compared
    for which upstream's is known; the output has a line for each.

    The exit code is 1 if a field differs that is not permitted to.

    \b
    Examples:
      llmbx catalog diff llama2
      llmbx catalog diff llama3.1 --size 405b --gpu-type gb200 --gpus 512
      llmbx catalog diff grok1 --dtype fp8 --gpu-type h100 --gpus 512 --format json
      llmbx catalog diff --run last
    """
    request = _request(arguments) if arguments["names"] or arguments["workload"] else None
    workspace = load_workspace()
    if run_name is not None and source is not None:
        raise click.UsageError("--source cannot be combined with --run")
    if run_name is not None:
        compared = _of_run(run_name, request, workspace)
    elif request is not None:
        if source is None and not any(getattr(request, field) for field in SINGLE):
            from .published_rows import PublishedRows

            if (rows := PublishedRows(request, workspace)).known:
                context.exit(DIFFERENT if rows.report(format_) else 0)
        compared = _built(request, workspace, source)
    else:
        raise click.UsageError("no workload specified: `llmbx list` shows all workloads")
    if _report(*compared, format_):
        context.exit(DIFFERENT)


def _request(arguments: Mapping[str, Any]) -> Request:
    """The requested configuration. Raises `UsageError` for contradictions and malformed pairs."""
    from llmbx.api.verbs import Request, parse_pairs, which_workload

    workload, plugin = which_workload(
        arguments["names"], arguments["workload"], arguments["plugin"]
    )
    return Request(
        workload=workload,
        plugin=plugin,
        size=_lower(arguments["size"]),
        dtype=_lower(arguments["dtype"]),
        gpu_type=_lower(arguments["gpu_type"]),
        gpus=arguments["gpus"],
        recipe=arguments["recipe"],
        steps=arguments["steps"],
        settings=parse_pairs("--set", arguments["settings"]),
    )


def _lower(name: str | None) -> str | None:
    return name.lower() if name else None


def _built(request: Request, workspace: Workspace, source: Path | None) -> Compared:
    """The requested configuration, built without training."""
    from .final_configuration import build_final

    spec = workspace.resolve(request)
    expected = _expected(spec, workspace, None)
    workspace.install.ensure()
    return spec, expected, build_final(spec, workspace, source)


def _of_run(name: str, request: Request | None, workspace: Workspace) -> Compared:
    """The configuration that a run trained with.

    Raises `UsageError` if it wrote none, or is not the requested one.
    """
    from llmbx.api.verbs import read_final

    from .final_configuration import FINAL

    run = workspace.find_run(name)
    spec = run.record.spec
    if request is not None:
        _require_same(run.record.run_id, spec, request, workspace)
    trained = read_final(run.path)
    if trained is None:
        raise UsageError(
            f"{run.record.run_id} has no {FINAL}: it has not begun to train, or its framework "
            "writes no final configuration; without --run the configuration is built here"
        )
    return spec, _expected(spec, workspace, run.path), trained.final


def _require_same(run_id: str, spec: RunSpec, request: Request, workspace: Workspace) -> None:
    """Raise `UsageError` if the options beside `--run` select another configuration."""
    if request.settings:
        raise UsageError(
            "--set cannot be combined with --run: the configuration of a run is what it was"
        )
    workload = workspace.plugins.workload(request.workload, request.plugin or spec.plugin)
    named = request.replace(workload=workload.name)
    for field in SELECTED:
        requested, trained = getattr(named, field), getattr(spec, field)
        if requested is not None and requested != trained:
            what = field.replace("_", " ")
            raise UsageError(
                f"--run {run_id}: the {what} of this run is {trained}, not {requested}"
            )


def _expected(spec: RunSpec, workspace: Workspace, folder: Path | None) -> ExpectedConfiguration:
    framework = workspace.plugins.framework(spec.plugin)
    return framework.expect_configuration(spec, folder) or ExpectedConfiguration()


def _report(
    spec: RunSpec, expected: ExpectedConfiguration, final: dict[str, Any], format_: str
) -> bool:
    """Print the comparison. Returns whether a field differs that is not permitted to."""
    differences = expected.differences(final)
    wrong = [difference for difference in differences if difference.reason is None]
    permitted = [difference for difference in differences if difference.reason is not None]
    if format_ == "json":
        print_json(
            {
                "configuration": spec.configuration_key,
                "final": final,
                "upstream": expected.upstream,
                "differences": [difference.row() for difference in wrong],
                "permitted": [difference.row() for difference in permitted],
            }
        )
    else:
        rows = [
            {
                "key": difference.key,
                "upstream": _text(difference.upstream),
                "final": _text(difference.final),
                "permitted_because": difference.reason,
            }
            for difference in (*wrong, *permitted)
        ]
        nothing = expected.upstream is None and not expected.requested
        empty = "nothing was compared" if nothing else "no field differs"
        print_rows(rows, COLUMNS, format_, empty=empty)
    if expected.upstream is None:
        fields = len(final)
        note = f"upstream's configuration is not known; the final configuration has {fields} fields"
        if expected.requested:
            note += f", {len(expected.requested)} were requested: {len(wrong)} differ"
    else:
        note = (
            f"{len(expected.compared(final))} fields compared: {len(wrong)} differ, "
            f"{len(permitted)} more differ as permitted"
        )
    click.echo(f"{spec.workload} {spec.configuration_key}: {note}", err=True)
    return bool(wrong)


def _text(side: Sequence[Any]) -> str | None:
    """A value as JSON; None, which a table shows as `-`, for a side that lacks the key."""
    return json.dumps(side[0]) if side else None
