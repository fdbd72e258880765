"""Check whether a plugin conforms to the interfaces of llmbx."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmbx.api import UsageError, did_you_mean

if TYPE_CHECKING:
    from .outcome import Outcome

GROUP = "llmbx"
"""The entry points of plugins."""

VARIABLE = "LLMBX_PLUGINS"
"""Paths of plugins that are not installed; the processes of a check inherit it."""


@click.command("check")
@click.argument("what", metavar="NAME|FOLDER")
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    help="A log of the framework.  [default: FOLDER/tests/*.log]",
)
@click.option(
    "--image",
    metavar="IMAGE",
    help="Container image in which a runtime of the plugin is driven.",
)
@click.option("--only", metavar="A,B", help="Only these checks.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
)
def command(what: str, log: Path | None, image: str | None, only: str | None, format_: str) -> None:
    """Check whether a plugin conforms to the interfaces of llmbx.

    NAME is an installed plugin; FOLDER is a project, which need not be installed, or a Python file.
    The checks: hooks, import (time, and packages that take long), catalog (every row), log (broken
    lines, and a log of the framework), profiler (a program under it), launcher (real jobs:
    followed, found again, failed, cancelled, waiting), runtime (a program in it: variables, mounts,
    exit code), mini (a real training of every workload), flops (the operations that each mini
    counts against its formula, within 2 %) and faults (of each hook, which llmbx must attribute).
    What this machine cannot do is "not checked", with the reason. A plugin's own tests can do the
    same: llmbx.testing.assert_conforms. The exit code is 1 if a check fails.

    \b
    Examples:
      llmbx plugins check nemo
      llmbx plugins check ./my_lm --only hooks,catalog,log
      llmbx plugins check ./podman --image registry.example/python:3.12
    """
    from llmbx.api.verbs import print_json

    from .conformance import CHECKS, examine
    from .subject import Subject

    checks = [name.strip() for name in only.split(",")] if only is not None else [*CHECKS]
    if unknown := next((name for name in checks if name not in CHECKS), None):
        raise UsageError(f"--only: no check named '{unknown}'{did_you_mean(unknown, CHECKS)}")
    outcomes: dict[str, list[Outcome]] = {}
    for name in _names(what):
        subject = Subject(name, _log(what, log), image)
        outcomes[name] = []
        for check in checks:
            outcome = examine(subject, check)
            outcomes[name].append(outcome)
            if format_ == "text" and outcome.status != "not applicable":
                _print(name, outcome)
    if format_ == "json":
        print_json(outcomes)
    all_outcomes = [outcome for of_plugin in outcomes.values() for outcome in of_plugin]
    sys.exit(1 if any(outcome.status == "failed" for outcome in all_outcomes) else 0)


def _names(what: str) -> list[str]:
    """The plugins to check; those of a path are loaded as with `--plugin`.

    Raises `UsageError` if there is none at the path.
    """
    from llmbx.api.contract import find_entry_points

    path = Path(what).absolute()
    if not (os.sep in what or path.suffix == ".py" or path.is_dir()):
        return [what]
    names = [point.name for point in find_entry_points(path) if point.group == GROUP]
    for name in names:
        _refuse_other(what, path, name)
    others = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = os.pathsep.join([str(path), *([others] if others else [])])
    return names


def _refuse_other(what: str, path: Path, name: str) -> None:
    """Raise `UsageError` if an installed plugin of this name would be loaded in place of `path`'s.

    A package that is installed from the folder itself is that of `path`.
    """
    from llmbx.api.contract import entry_points

    installed = (point for point in entry_points(GROUP) if point.dist is not None)
    point = next((point for point in installed if point.name == name), None)
    if point is None or point.dist is None:
        return
    package = importlib.util.find_spec(point.module.partition(".")[0])
    if package is not None:
        places = [*(package.submodule_search_locations or ()), package.origin or ""]
        if any(Path(place).resolve().is_relative_to(path.resolve()) for place in places if place):
            return
    raise UsageError(
        f"{what}: its plugin has the name '{name}' of an installed one ({point.dist.name}), which "
        "would be checked in its place: rename it, or uninstall the other one, which "
        f"`llmbx plugins check {name}` checks"
    )


def _log(what: str, named: Path | None) -> str | None:
    """The text of the log to parse. Raises `UsageError` if it cannot be read."""
    file = named or next(iter(sorted(Path(what).glob("tests/*.log"))), None)
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"--log {file}: cannot be read: {error.strerror}") from None


def _print(plugin: str, outcome: Outcome) -> None:
    mark = "FAILED" if outcome.status == "failed" else outcome.status
    head = f"{plugin}  {outcome.check:<9}{mark:<11}"
    for line in outcome.details or ("",):
        click.echo(f"{head} {line}".rstrip())
        head = " " * len(head)
