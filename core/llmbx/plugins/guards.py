"""Guards around the objects that plugins return: tools, judges, histories, log formats and checks.

What a guarded function prints goes to standard error. Its exceptions, hangs and invalid answers name the plugin and the
call.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from ..errors import LlmbxError, PluginError
from ..logs.parser import LogFormat, LogParser
from ..logs.source_reader import FindReader, no_reader
from ..model import Finding
from .calls import Call
from .descriptions import describe_type
from .hangs import NEVER, limit_s
from .validation import Returns, method_returns, validate_answer

if TYPE_CHECKING:
    from ..model.evidence import Answer, Check, Evidence
    from .log_parser import CheckedParser

T = TypeVar("T")

SLOW = frozenset({"prepare", "look_inside", "submit", "cancel", "cancel_pending", "check"})
"""Methods that may take minutes and report their progress themselves, or wait for the end of processes."""


def guarded(
    function: Callable[..., Any], owner: str, name: str, returns: Returns | None = None, seconds: float = NEVER,
    slow: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """The function as a call of the plugin `owner` ("plugin 'toy'"), with the limits of `Call`."""

    def call(*arguments: Any, **named: Any) -> Any:
        with Call(owner, name, limit_s=seconds, slow=slow) as running:
            return validate_answer(running.title, returns, function(*arguments, **named))

    return call


class _Tool:
    """Stands for a tool, judge or history of `plugin`, with the same members. What `inside` returns is guarded."""

    def __init__(self, tool: Any, plugin: str, kind: type) -> None:
        self._tool, self._kind = tool, kind
        self._title = f"{kind.__name__.lower()} '{getattr(tool, 'name', plugin)}'"
        self.plugin = plugin

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        member = getattr(self._tool, name)
        if not callable(member):
            return member
        method = getattr(self._kind, name, None)
        title = f"{name} of {self._title}"
        returns = method_returns(method) if method else None
        call = guarded(member, f"plugin '{self.plugin}'", title, returns, slow=name in SLOW)
        return self._guard_answer(call) if name == "inside" else call

    def _guard_answer(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def guard(*arguments: Any) -> Any:
            answer = call(*arguments)
            return self if answer is self._tool else _Tool(answer, self.plugin, self._kind)

        return guard


def guard_tool(tool: T, plugin: str, kind: type) -> T:
    """Guard a tool, judge or history, which is of the `kind`. Its member `plugin` is the name of the plugin."""
    return cast(T, _Tool(tool, plugin, kind))


def make_parser(format_: LogFormat, owner: str, source_reader: FindReader = no_reader) -> CheckedParser:
    """Make the parser of a log format. Raises `PluginError` if it is not one."""
    from .log_parser import CheckedParser

    name = f"parser of log format '{format_.name}'"
    parser = guarded(format_.parser, owner, name, Returns(False, LogParser))()
    return CheckedParser(parser, owner, source_reader)


def guard_format(format_: LogFormat, owner: str, source_reader: FindReader = no_reader) -> LogFormat:
    """Guard the functions of a log format. A sniffer that fails is reported once and then matches no line."""

    def call(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        return guarded(function, owner, f"{name} of log format '{format_.name}'")

    sniff = _sniffer(call(lambda text: int(format_.sniff(text)), "sniff"))
    window = call(lambda experiment: str(format_.window(experiment)), "window")
    parser = functools.partial(make_parser, format_, owner, source_reader)
    return LogFormat(format_.name, format_.title, sniff, parser, window, format_.unit)


def _sniffer(sniff: Callable[[str], int]) -> Callable[[str], int]:
    failed = False

    def recognized(text: str) -> int:
        nonlocal failed
        try:
            return 0 if failed else sniff(text)
        except PluginError as error:
            failed = True
            print(f"llmbx: {error}; it is ignored", file=sys.stderr)
            return 0

    return recognized


def guard_check(check: Check, plugin: str, name: str | None = None) -> Check:
    """The check under `name`, by default PLUGIN:ID. If its test raises, hangs or answers nonsense, it is not possible.

    Raises `PluginError` if the check's own members are invalid.
    """
    from ..model.evidence import OWN_CHECK, NotPossible
    from ..model.finding import Effect

    for member, values in (("effect", get_args(Effect)), ("runs", ("own", "all"))):
        value = getattr(check, member)
        if value not in values:
            place = f"plugin '{plugin}': check '{check.id}'"
            raise PluginError(f"{place}: {member} is {value!r}, expected one of {', '.join(values)}")
    test = guard_test(check, plugin)

    def answer(evidence: Evidence) -> Answer:
        try:
            return test(evidence)
        except LlmbxError as error:
            return NotPossible(reason=str(error))

    return dataclasses.replace(check, id=name or f"{plugin}{OWN_CHECK}{check.id}", test=answer)


def guard_test(check: Check, plugin: str) -> Callable[[Evidence], Answer]:
    """The test of a check, which raises `PluginError` if it fails or answers nonsense."""
    from ..model.evidence import NotPossible

    owner, name = f"plugin '{plugin}'", f"check '{check.id}'"
    test = guarded(check.test, owner, name, seconds=NEVER if check.reads_files else limit_s())

    def answer(evidence: Evidence) -> Answer:
        result: Answer = test(evidence)
        if result is None or isinstance(result, NotPossible) or (isinstance(result, str) and result):
            return result
        if not isinstance(result, list | tuple):
            kind = describe_type(result)
            raise PluginError(f"{owner}: {name} returned {kind}, expected a line, findings, NotPossible or None")
        findings: list[Finding] = validate_answer(f"{owner}: {name}", Returns(True, Finding), result)
        return findings

    return answer


def failed_check(plugin: str, reason: str) -> Check:
    """Stands for the checks of a plugin that could not be asked for them."""
    from ..model.evidence import OWN_CHECK, Check, NotPossible

    return Check(
        id=f"{plugin}{OWN_CHECK}checks", reads="", means="", do="", effect="warning",
        test=lambda _: NotPossible(reason=reason),
    )  # fmt: skip
