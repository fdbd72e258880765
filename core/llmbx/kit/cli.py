"""List the plugins; create, check and enable plugins."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..cli.output import Row, format_option, print_json, print_rows
from ..errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ..plugins.manager import Plugins
    from ..testing.conformance import Outcome
    from .template import Kind

F = TypeVar("F", bound=Callable[..., Any])

TIMES = ("name", "total_ms", "import_ms", "hooks_ms", "slowest_hook")
COLUMNS = ("name", "version", "distribution", "status", "hooks")


@click.group("plugins", invoke_without_command=True)
@click.option("--timing", is_flag=True, help="List how long each plugin takes to be imported and to describe itself.")
@format_option
@click.pass_context
def command(context: click.Context, timing: bool, format_: str) -> None:
    """List the plugins.

    A plugin is a package with an entry point in the group `llmbx`, or a file or project folder that was enabled. A
    broken plugin is listed with its error; the others still work. Set LLMBX_TRACE_HOOKS=1 to make any command print
    every hook call.
    """
    if context.invoked_subcommand is not None:
        return
    from ..plugins.manager import load

    plugins = load()
    plugins.ask_all()
    if timing:
        print_rows(_times(plugins), TIMES, format_, empty="no plugin found")
        return
    rows: list[Row] = [
        {
            "name": info.name,
            "version": info.version,
            "distribution": info.distribution,
            "module": info.module,
            "status": f"broken: {info.error}" if info.error else info.warning or "ok",
            "hooks": [*info.hooks, *(f"{hook} (wrapper)" for hook in info.wrappers)],
        }
        for info in plugins.infos
    ]
    print_rows(rows, COLUMNS, format_, empty="no plugin found")


def _times(plugins: Plugins) -> list[Row]:
    """The time of each plugin, the slowest first."""
    rows: list[Row] = []
    for info in plugins.infos:
        hooks = {hook: seconds for (plugin, hook), seconds in plugins.times.items() if plugin == info.name}
        slowest = max(hooks, key=lambda hook: hooks[hook], default=None)
        total = (info.import_s or 0.0) + sum(hooks.values())
        rows.append(
            {
                "name": info.name, "total_ms": _ms(total), "import_ms": _ms(info.import_s),
                "hooks_ms": _ms(sum(hooks.values())), "slowest_hook": slowest,
                "hooks": {hook: _ms(seconds) for hook, seconds in hooks.items()}, "error": info.error,
            }
        )  # fmt: skip
    return sorted(rows, key=lambda row: -row["total_ms"])


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 1)


def _kind_option(kind: str, text: str) -> Callable[[F], F]:
    return click.option(f"--{kind}", "kind", flag_value=kind, default=None, help=text)


@command.command("new")
@click.argument("name")
@_kind_option("framework", "Workloads with a trainer, a log parser and FLOPs (the default).")
@_kind_option("profiler", "A program before the command of every rank.")
@_kind_option("runtime", "A way to give a program its libraries.")
@_kind_option("launcher", "A way to start the ranks.")
@_kind_option("verb", "A command, and a check of results.")
@click.option("--folder", type=click.Path(path_type=Path), help="Folder to create.  [default: NAME]")
def new(name: str, kind: Kind | None, folder: Path | None) -> None:
    """Create the package of a new plugin.

    The package installs, its tests pass, and the mini of a framework trains on a CPU in a minute.

    \b
    Examples:
      llmbx plugins new my_lm
      llmbx run my_lm --plugin ./my_lm
      llmbx plugins check ./my_lm
    """
    from ..plugins.manager import load
    from . import template

    template.check_name(name, tuple(info.name for info in load().infos))
    target = folder or Path(name)
    for path in template.write(target, name, kind or "framework"):
        click.echo(path)
    click.echo(f"next: llmbx plugins check {target}", err=True)


@command.command("check")
@click.argument("what", metavar="NAME|FOLDER")
@click.option("--log", type=click.Path(path_type=Path), help="A log of the framework.  [default: FOLDER/tests/*.log]")
@click.option("--image", metavar="IMAGE", help="Container image in which a runtime of the plugin is driven.")
@click.option("--only", metavar="A,B", help="Only these checks.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def check(what: str, log: Path | None, image: str | None, only: str | None, format_: str) -> None:
    """Check whether a plugin conforms to the interfaces of llmbx.

    NAME is an installed plugin; FOLDER is a project, which need not be installed, or a Python file. The checks: hooks,
    import (time, and packages that take long), catalog (every row), log (broken lines, and a log of the framework),
    profiler (a program under it), launcher (real jobs: followed, found again, failed, cancelled, waiting), runtime (a
    program in it: variables, mounts, exit code), mini (a real training of every workload), flops (the operations that
    each mini counts against its formula, within 2 %) and faults (of each hook, which llmbx must attribute). What this
    machine cannot do is "not checked", with the reason. A plugin's own tests can do the same:
    llmbx.testing.assert_conforms. The exit code is 1 if a check fails.

    \b
    Examples:
      llmbx plugins check nemo
      llmbx plugins check ./my_lm --only hooks,catalog,log
      llmbx plugins check ./podman --image registry.example/python:3.12
    """
    from ..testing.conformance import CHECKS, Subject, examine

    names = [name.strip() for name in only.split(",")] if only is not None else [*CHECKS]
    if unknown := next((name for name in names if name not in CHECKS), None):
        raise UsageError(f"--only: no check named '{unknown}'{did_you_mean(unknown, CHECKS)}")
    failed = False
    found: dict[str, list[Outcome]] = {}
    for plugin in _named(what):
        subject = Subject(plugin, _log(what, log), image)
        found[plugin] = []
        for name in names:
            outcome = examine(subject, name)
            found[plugin].append(outcome)
            failed = failed or outcome.status == "failed"
            if format_ == "text" and outcome.status != "not applicable":
                _print(plugin, outcome)
    if format_ == "json":
        print_json(found)
    sys.exit(1 if failed else 0)


def _named(what: str) -> list[str]:
    """The plugins to check; those of a path are loaded as with `--plugin`. Raises `UsageError` if there are none."""
    from ..plugins import local_sources
    from ..plugins.manager import load

    path = Path(what)
    if local_sources.is_path(what) or path.is_dir():
        full = path.absolute()
        points = [point for point in local_sources.find(full) if point.group == local_sources.GROUPS[0]]
        for point in points:
            _refuse_taken(what, full, point)
        known = os.environ.get(local_sources.VARIABLE)
        os.environ[local_sources.VARIABLE] = os.pathsep.join([str(full), *([known] if known else [])])
        return [point.name for point in points]
    known_names = [info.name for info in load().infos]
    if what not in known_names:
        raise UsageError(f"no plugin named '{what}'{did_you_mean(what, known_names)}")
    return [what]


def _refuse_taken(what: str, path: Path, point: EntryPoint) -> None:
    """Raise `UsageError` if an installed plugin of the same name, which is not that of `path`, would be checked."""
    import importlib.util

    from ..plugins.discovery import owner
    from ..plugins.entry_points import installed
    from ..plugins.local_sources import GROUPS

    taken = next((other for other in installed(GROUPS[0]) if other.name == point.name), None)
    if taken is None:
        return
    found = importlib.util.find_spec(taken.value.partition(":")[0].partition(".")[0])
    places = [*(found.submodule_search_locations or ()), found.origin or ""] if found else []
    if taken.value == point.value and any(Path(place).resolve().is_relative_to(path.resolve()) for place in places):
        return
    raise UsageError(
        f"{what}: its plugin has the name '{point.name}' of an installed one ({owner(taken)}), which would be checked "
        f"in its place: rename it, or uninstall the other one, which `llmbx plugins check {point.name}` checks"
    )


def _log(what: str, given: Path | None) -> str | None:
    """The text of the log to parse. Raises `UsageError` if it cannot be read."""
    folder = Path(what)
    found = [given] if given else sorted(folder.glob("tests/*.log")) if folder.is_dir() else []
    if not found:
        return None
    try:
        return found[0].read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"--log {found[0]}: cannot be read: {error.strerror}") from None


def _print(plugin: str, outcome: Outcome) -> None:
    mark = {"ok": "ok", "failed": "FAILED"}.get(outcome.status, outcome.status)
    head = f"{plugin}  {outcome.check:<9}{mark:<11}"
    for number, line in enumerate(outcome.details or ("",)):
        click.echo(f"{head if number == 0 else ' ' * len(head)} {line}".rstrip())


@command.command("enable")
@click.argument("path", type=click.Path(path_type=Path))
def enable(path: Path) -> None:
    """Use a plugin that is not installed, in every command.

    PATH is a Python file with hooks, or the folder of a project whose pyproject.toml has [project.entry-points.llmbx].
    `--plugin PATH` uses it in one command.
    """
    from ..plugins.local_sources import enabled, enabled_file, find, full_path

    full = Path(full_path(path))
    names = ", ".join(point.name for point in find(full))
    file, known = enabled_file(os.environ), enabled(os.environ)
    if str(full) not in known:
        _write(file, [*known, str(full)])
    click.echo(f"enabled {names} ({full}) in {file}")


@command.command("disable")
@click.argument("path", type=click.Path(path_type=Path))
def disable(path: Path) -> None:
    """Stop using a plugin that was enabled. PATH is that of `llmbx plugins enable`."""
    from ..plugins.local_sources import enabled, enabled_file, full_path

    full, known = full_path(path), enabled(os.environ)
    if full not in known:
        raise UsageError(f"{path} is not enabled{did_you_mean(full, known)}")
    _write(enabled_file(os.environ), [one for one in known if one != full])
    click.echo(f"disabled {full}")


def _write(file: Path, paths: list[str]) -> None:
    from ..files import disk_errors, write_atomic

    with disk_errors(str(file)):
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_atomic(file, "".join(f"{path}\n" for path in paths).encode(), mode=0o644)
