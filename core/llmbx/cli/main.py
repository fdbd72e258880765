"""The `llmbx` command: find verbs by entry point, load only the one that runs, and print errors as one line."""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NoReturn

import click

from .. import __version__
from ..errors import LlmbxError, PluginError, UsageError
from ..files import deny_others_writing
from ..plugins import local_sources, stdout
from ..plugins.calls import Call, failure
from ..plugins.entry_points import load as load_point
from ..plugins.entry_points import points
from ..plugins.hangs import own_process
from ..plugins.packages import EntryPoint
from . import streams

GROUP = "llmbx.commands"
OWN = "llmbx"
"""The distribution whose verbs cannot be replaced."""
MISSING = "(cannot be loaded)"

HELP = "help"
"""`llmbx help VERB` is `llmbx VERB --help`."""

NAMED = 100
"""Characters of a name that is too long, in the message about it."""

SUMMARY = 100
"""Most characters of the summary of a command that is no entry point."""

_BREAK_IN_VALUE = re.compile(r"\n(?!  )")
"""A line break that is not before one of the problems that an error lists."""

_FIRST_LINE = re.compile(r'"""([^"\\\n]+)(?:"""|\n)')
"""A docstring without escapes at the beginning of a module."""

GROUPS = {
    "Start": ("init", "doctor", "list", "show"),
    "Run": ("run", "profile", "sweep", "accept"),
    "Follow runs": ("jobs", "status", "logs", "cancel"),
    "Analyze": ("report", "compare", "explain", "nodes", "parse", "audit"),
    "Predict": ("predict", "atlas"),
    "Maintain": ("catalog", "env", "image", "plugins"),
}
"""The verbs of `--help` by group."""

OTHERS = "Analyze"
"""The group in which verbs follow that are not listed: those that plugins bring."""

ORDER = [name for names in GROUPS.values() for name in names]

EPILOG = """\b
Try:
  llmbx run --plugin nemo grok1                  train a small Grok-1 here
  llmbx show grok1 --gpu-type gb200 --gpus 128   every setting of a large job
  llmbx list                                     list all workloads
Exit codes: 0 success; 1 the run failed; 2 usage or configuration error;
3 slower than the reference or baseline allows; 4 infrastructure failure;
5 measured, but no verdict can be given; 130 interrupted."""


class Verbs(click.Group):
    """A group whose commands are entry points; `--help` reads their summaries without importing them.

    The verb `within` is such a group, too: the entry point `plugins.new` is the command `llmbx plugins new`. Commands
    that the group defines itself cannot be replaced.
    """

    def __init__(self, *args: Any, within: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.within = within

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = {*self.commands, *self._points()}
        return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        points = self._points().get(cmd_name)
        if points is None:
            return self.commands.get(cmd_name)
        title = f"command '{self._title(cmd_name)}'"
        if len(points) > 1:
            raise UsageError(f"{title} is {_providers(points)}: uninstall one of them")
        point = points[0]
        what = f"{title} ({_owner(point)})"
        with Call(what, "its import", f"{what} cannot be loaded"):
            command = load_point(point)
        if not isinstance(command, click.Command):
            raise PluginError(f"{title} ({point.value}) is not a click command")
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (LlmbxError, click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            points = self._points().get(ctx.invoked_subcommand or "", [])
            if not points or _owner(points[0]) == OWN:
                raise  # a bug of llmbx itself: its report needs the traceback
            title = f"command '{self._title(ctx.invoked_subcommand or '')}'"
            raise failure(f"{title} ({_owner(points[0])}) failed", error) from error

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] == HELP and HELP not in self.list_commands(ctx):
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        width = max(map(len, names), default=0)
        for title, members in self._groups(names).items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), self._summary(name)) for name in members])

    def _groups(self, names: list[str]) -> dict[str, list[str]]:
        """The commands by title, without empty groups; those of a verb are one group."""
        if self.within:
            return {"Commands": names} if names else {}
        of = {name: title for title, members in GROUPS.items() for name in members}
        titles = {title: [name for name in names if of.get(name, OTHERS) == title] for title in GROUPS}
        return {title: members for title, members in titles.items() if members}

    def _summary(self, name: str) -> str:
        points = self._points().get(name)
        if points is None:
            return self.commands[name].get_short_help_str(SUMMARY)
        return summary(points[0]) if len(points) == 1 else f"({_providers(points)})"

    def _title(self, name: str) -> str:
        return f"{self.within} {name}".strip()

    def _points(self) -> dict[str, list[EntryPoint]]:
        """The entry points by name; several if packages provide the same name and llmbx does not."""
        if not hasattr(self, "_by_name"):
            by_name: dict[str, list[EntryPoint]] = {}
            for point in points(GROUP):
                group, _, name = point.name.rpartition(".")
                if group == self.within:
                    by_name.setdefault(name, []).append(point)
            chosen = {name: self._chosen(name, points) for name, points in by_name.items()}
            self._by_name = {name: points for name, points in chosen.items() if points}
        return self._by_name

    def _chosen(self, name: str, points: list[EntryPoint]) -> list[EntryPoint]:
        """The entry point of llmbx itself if it has one, none if the group itself has this command, else all.

        Ignored ones are reported on stderr.
        """
        taken = name in self.commands
        if len(points) == 1 and not taken:
            return points  # without its owner, which is in its metadata
        own = [] if taken else [point for point in points if _owner(point) == OWN]
        if not own and not taken:
            return points
        for point in points:
            if point not in own:
                command = f"command '{self._title(name)}' of {_owner(point)}"
                click.echo(f"llmbx: {command} is ignored: the name is reserved by llmbx", err=True)
        return own


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value


def _providers(points: list[EntryPoint]) -> str:
    return f"provided by {' and by '.join(sorted(_owner(point) for point in points))}"


def summary(point: EntryPoint) -> str:
    """The first line of the verb's module docstring, read from its source without importing it."""
    try:
        package, *names = point.module.split(".")
        # Look up the top package only: finding a module inside a package would import the package.
        module = importlib.util.find_spec(package)
        if module is None:
            return MISSING
        source = _source(module, names).read_text(encoding="utf-8")
        text = _docstring(source)
    except (ImportError, OSError, SyntaxError, ValueError, IndexError, AttributeError):
        return MISSING
    return text.splitlines()[0] if text else ""


def _docstring(source: str) -> str:
    """A module's docstring, or only its first line. Parsing a whole module takes longer than the rest of `--help`."""
    if plain := _FIRST_LINE.match(source):
        return plain[1].strip()
    import ast

    return ast.get_docstring(ast.parse(source)) or ""


def _source(package: ModuleSpec, names: list[str]) -> Path:
    """The source file of the module `names` of a package, or of the package itself."""
    if not names:
        return Path(package.origin or "")
    base = Path((package.submodule_search_locations or [])[0]).joinpath(*names)
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def _with_dashes(name: str) -> str:
    """The name of an option that was typed with underscores."""
    return name.replace("_", "-")


@click.command(
    cls=Verbs,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "token_normalize_func": _with_dashes,
    },
    epilog=EPILOG,
)
@click.version_option(__version__, "-v", "--version", message="llmbx %(version)s")
def cli() -> None:
    """Run LLM pre-training benchmarks and check the results."""


def main() -> NoReturn:
    """Run the command line and exit with the documented code."""
    deny_others_writing()
    streams.wrap_standard_streams()
    own_process()
    code = streams.finish(_run())
    stdout.give_away()
    sys.exit(code)


def _run() -> int:
    """Run the verb and return its exit code."""
    code: Any = 0
    if sources := local_sources.from_arguments(sys.argv[1:], os.environ):
        os.environ[local_sources.VARIABLE] = sources
    try:
        code = cli.main(prog_name="llmbx", standalone_mode=False)
    except SystemExit as stop:
        code = 1 if isinstance(stop.code, str) else stop.code
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        click.echo(_without_secrets(_usage(error)), err=True)
        code = error.exit_code
    except LlmbxError as error:
        click.echo(f"llmbx: {_without_secrets(message(error))}", err=True)
        code = error.exit_code
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        longest = max(Path(str(error.filename)).parts, key=len)
        click.echo(f"llmbx: the name '{longest[:NAMED]}…' is too long for a file", err=True)
        code = UsageError.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("llmbx: interrupted", err=True)
        code = 130
    return code if isinstance(code, int) else 0


def _usage(error: click.ClickException) -> str:
    """The message of click; a command that has only sub-commands prints its help instead."""
    from .usage_errors import line

    return error.format_message() if isinstance(error, click.exceptions.NoArgsIsHelpError) else line(error)


def message(error: LlmbxError) -> str:
    """The error's line, and the problems that it lists, indented. A line break in a quoted value is an escape."""
    return _BREAK_IN_VALUE.sub(r"\\n", str(error))


def _without_secrets(text: str) -> str:
    """An error message without secrets: it may quote an option, a file or a tool's output."""
    from ..secrets import scrub

    return scrub(text, os.environ)
