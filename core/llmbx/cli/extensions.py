"""Options that plugins add to verbs: entry points of the group `llmbx.options`, named VERB.NAME."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import click

from ..errors import LlmbxError
from ..plugins.calls import PLUGIN_EXCEPTIONS, describe_error, failure
from ..plugins.entry_points import load, points
from ..plugins.packages import EntryPoint

GROUP = "llmbx.options"
"""The group of entry points, and the place of the given options in a context."""
OWN = "llmbx"
"""The distribution whose exceptions are bugs of llmbx: their report needs the traceback."""

EXAMPLES = "\b\nExamples:"


class Extension:
    """Options that a plugin adds to a verb, and what they do in it."""

    Verb: ClassVar[type[Extensible]]
    """The class of a verb that options can be added to; its function calls `Verb.act` with what it was asked for."""

    options: tuple[click.Option, ...] = ()
    text: str = ""
    """A paragraph for the help of the verb."""
    example: str = ""
    """A command line for the examples in the help."""

    def act(self, call: Any, values: Mapping[str, Any]) -> int | None:
        """Act on the options, one of which was given, before the verb starts anything.

        `call` is what the verb was asked for: `llmbx run` passes a `RunCall`. `values` has the value of each option by
        its name. Return the exit code if this replaces what the verb does, or None to let the verb continue. Raise
        `UsageError` for what cannot be combined.
        """
        return None


class Extensible(click.Command):
    """A verb that plugins can add options to. Its function calls `act` with what it was asked for."""

    is_run = False
    """Whether it has the options of the settings of plugins."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The verb's own parameters, then those of plugins; `--help` is the last."""
        *own, last = super().get_params(ctx)
        return [*own, *(option for _, extension in self._added(ctx) for option in extension.options), last]

    def invoke(self, ctx: click.Context) -> Any:
        """Keep the added options from the verb's function, which does not know them."""
        ctx.meta[GROUP] = [
            (point, extension, {option.name: ctx.params.pop(option.name) for option in extension.options})
            for point, extension in self._added(ctx)
        ]
        return super().invoke(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verb's own text with the paragraphs and examples of the added options."""
        own, added = self.help, [extension for _, extension in self._added(ctx)]
        self.help = _help(inspect.cleandoc(own or ""), [each.text for each in added], [each.example for each in added])
        super().format_help_text(ctx, formatter)
        self.help = own

    @staticmethod
    def act(call: Any) -> int | None:
        """Let the options that plugins added act on what the verb was asked for; return an exit code, or None."""
        return act(call)

    def _added(self, ctx: click.Context) -> list[tuple[EntryPoint, Extension]]:
        """The extensions of this verb without those that use a name of others; these are ignored, which is said."""
        taken, added = _names(super().get_params(ctx)), []
        for point, extension in extensions(self.name or ""):
            names = _names(extension.options)
            if clash := names & taken:
                _ignore(point, f"`llmbx {self.name}` has another {min(clash)}")
                continue
            taken |= names
            added.append((point, extension))
        return added


Extension.Verb = Extensible


def act(call: Any) -> int | None:
    """Let the options that plugins added act on what the verb was asked for; return the first exit code, or None."""
    context = click.get_current_context()
    for point, extension, values in context.meta[GROUP]:
        if not any(_given(context, name) for name in values):
            continue
        try:
            code: int | None = extension.act(call, values)
        except (LlmbxError, click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if _owner(point) == OWN:
                raise
            raise failure(f"{_title(point)} failed", error) from error
        if code is not None:
            return code
    return None


@functools.cache
def extensions(verb: str) -> tuple[tuple[EntryPoint, Extension], ...]:
    """The extensions of a verb with their entry points, those of llmbx first.

    One that cannot be loaded is ignored, which is said.
    """
    chosen = [point for point in points(GROUP) if point.name.partition(".")[0] == verb]
    if len(chosen) > 1:  # only then, because finding the owner reads its metadata
        chosen.sort(key=lambda point: _owner(point) != OWN)
    loaded: list[tuple[EntryPoint, Extension]] = []
    for point in chosen:
        try:
            extension = load(point)
        except PLUGIN_EXCEPTIONS as error:
            _ignore(point, describe_error(error))
            continue
        if isinstance(extension, Extension):
            loaded.append((point, extension))
        else:
            _ignore(point, f"{point.value} is not an Extension")
    return tuple(loaded)


def _help(own: str, paragraphs: Iterable[str], examples: Iterable[str]) -> str:
    """The help of a verb, whose examples are its last part."""
    text, mark, own_examples = own.partition(EXAMPLES)
    text = "".join(f"{part}\n\n" for part in (text.rstrip(), *paragraphs) if part)
    return f"{text}{mark}{own_examples.rstrip()}" + "".join(f"\n  {example}" for example in examples if example)


def _given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT)


def _names(params: Iterable[click.Parameter]) -> set[str]:
    return {name for param in params for name in (param.name or "", *param.opts, *param.secondary_opts)}


@functools.cache
def _ignore(point: EntryPoint, why: str) -> None:
    click.echo(f"llmbx: {_title(point)} are ignored: {why}", err=True)


def _title(point: EntryPoint) -> str:
    return f"the options {point.name} ({_owner(point)})"


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value
