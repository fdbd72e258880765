"""Compare the catalog's configurations with upstream's."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from .completion import RUN
from .options import RUN_OPTIONS, build_request
from .output import format_option, print_json, print_rows
from .workspace import Workspace, load_workspace

if TYPE_CHECKING:
    from ..catalog.configuration import FieldDifference
    from ..config.request import Request
    from ..model import ExpectedConfiguration, RunSpec
    from ..run.configuration import FinalConfiguration

    Compared = tuple[RunSpec, ExpectedConfiguration, FinalConfiguration]

DIFFERENT = 1
COLUMNS = ("key", "upstream", "final", "permitted_because")
SELECTION = ("names", "workload", "plugin", "size", "dtype", "gpu_type", "gpus", "recipe", "steps", "settings")
"""The options of `llmbx run` that select a configuration."""
SELECTED = ("plugin", "workload", "size", "dtype", "gpu_type", "gpus", "recipe", "steps")
"""The fields of a specification that these options set, without `--set`."""


def _selection(function: Callable[..., Any]) -> Callable[..., Any]:
    for name in reversed(SELECTION):
        function = RUN_OPTIONS[name](function)
    return function


@click.group("catalog")
def command() -> None:
    """Compare the catalog's configurations with upstream's."""


@command.command("diff")
@click.option(
    "--run", "run_name", metavar="RUN", type=RUN, help="Compare the configuration that this run trained with."
)
@format_option()
@_selection
@click.pass_context
def diff(context: click.Context, /, run_name: str | None, format_: str, **arguments: Any) -> None:
    """Compare the framework's final configuration with upstream's, field by field.

    The final configuration is what the framework trains with after it has changed it. It is built on the CPU of this
    machine, in an environment with the version in the recipe's image, without training; the environment is built on
    first use. With --run it is the configuration that rank 0 of this run wrote to configs/final.json.

    The output has the differing fields: those without a reason first, then those in which the catalog permits a
    difference. JSON has all values: configuration, final, upstream (null if unknown), differences, permitted.

    The exit code is 1 if a field differs that is not permitted to.

    \b
    Examples:
      llmbx catalog diff llama3.1 --size 405b --gpu-type gb200 --gpus 512
      llmbx catalog diff grok1 --dtype fp8 --gpu-type h100 --gpus 512 --format json
      llmbx catalog diff --run last
    """
    request = build_request(arguments) if arguments["names"] or arguments["workload"] else None
    workspace = load_workspace()
    if run_name is not None:
        compared = _of_run(run_name, request, workspace)
    elif request is not None:
        compared = _built(request, workspace)
    else:
        raise click.UsageError("no workload specified: `llmbx list` shows all workloads")
    if _report(*compared, format_):
        context.exit(DIFFERENT)


def _built(request: Request, workspace: Workspace) -> Compared:
    """The requested configuration, built here without training."""
    from ..run.configuration import build_final

    spec = workspace.resolve(request)
    expected = _expected(spec, workspace, None)
    workspace.install.ensure()
    found = build_final(spec, workspace.plugins, workspace.install.path, lambda line: click.echo(line, err=True))
    return spec, expected, found


def _of_run(name: str, request: Request | None, workspace: Workspace) -> Compared:
    """The configuration that a run trained with. Raises `UsageError` if it wrote none, or is not the requested one."""
    from ..history import find_run
    from ..model import FINAL
    from ..run.configuration import read_final

    run = find_run(workspace.install, name)
    spec = run.record.spec
    if request is not None:
        _require_same(run.record.run_id, spec, request, workspace)
    found = read_final(run.path)
    if found is None:
        raise UsageError(
            f"{run.record.run_id} has no {FINAL}: it has not begun to train, or its framework writes no final "
            "configuration; without --run the configuration is built here"
        )
    return spec, _expected(spec, workspace, run.folder), found


def _require_same(run_id: str, spec: RunSpec, request: Request, workspace: Workspace) -> None:
    """Raise `UsageError` if the options beside `--run` name another configuration than the run's."""
    if request.settings:
        raise UsageError("--set cannot be combined with --run: the configuration of a run is what it was")
    workload = workspace.plugins.workload(request.workload, request.plugin or spec.plugin)
    named = request.replace(workload=workload.name)
    for field in SELECTED:
        wanted = getattr(named, field)
        if wanted is not None and wanted != getattr(spec, field):
            what = field.replace("_", " ")
            raise UsageError(f"--run {run_id}: the {what} of this run is {getattr(spec, field)}, not {wanted}")


def _expected(spec: RunSpec, workspace: Workspace, folder: str | None) -> ExpectedConfiguration:
    from pathlib import Path

    from ..model import ExpectedConfiguration

    framework = workspace.plugins.framework(spec.plugin)
    return framework.expect_configuration(spec, Path(folder) if folder else None) or ExpectedConfiguration()


def _report(spec: RunSpec, expected: ExpectedConfiguration, found: FinalConfiguration, format_: str) -> bool:
    """Print the comparison. Returns whether a field differs that is not permitted to."""
    from ..catalog.configuration import compare_configurations, compared_fields

    key, differing = spec.configuration_key, compare_configurations(found.final, expected)
    wrong = [difference for difference in differing if difference.reason is None]
    intended = [difference for difference in differing if difference.reason is not None]
    if format_ == "json":
        print_json(
            {
                "configuration": key,
                "final": found.final,
                "upstream": expected.upstream,
                "differences": [difference.row() for difference in wrong],
                "permitted": [difference.row() for difference in intended],
            }
        )
    else:
        print_rows([_row(difference) for difference in (*wrong, *intended)], COLUMNS, format_,
                   empty="no field differs" if expected.upstream is not None else "nothing was compared")  # fmt: skip
    if expected.upstream is None:
        note = f"upstream's configuration is not known; the final configuration has {len(found.final)} fields"
    else:
        fields = compared_fields(found.final, expected)
        note = f"{fields} fields compared: {len(wrong)} differ, {len(intended)} more differ as permitted"
    click.echo(f"{spec.workload} {key}: {note}", err=True)
    return bool(wrong)


def _row(difference: FieldDifference) -> dict[str, Any]:
    """The row of a table: values as JSON, `-` for a configuration that lacks the key."""
    sides = {name: _text(getattr(difference, name)) for name in ("upstream", "final")}
    return {"key": difference.key, **sides, "permitted_because": difference.reason}


def _text(side: Sequence[Any]) -> str | None:
    return json.dumps(side[0]) if side else None
