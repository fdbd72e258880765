"""The one way into a plugin's code: its output, its exceptions and its hangs are those of a named plugin and call."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from ..errors import LlmbxError, PluginError, one_line
from . import stdout
from .hangs import NEVER, VARIABLE, TookTooLong, alarm, notice_s

if TYPE_CHECKING:
    import pluggy

PLUGIN_EXCEPTIONS = (Exception, SystemExit)
"""Exceptions of a plugin's code that must not end llmbx. KeyboardInterrupt comes from the user and is not caught."""


class Call:
    """One call into a plugin, as a context manager around it. Raises `PluginError` if it is not called again.

    `owner` names the plugin ("plugin 'toy'"), `name` the call. Standard output goes to standard error meanwhile. A call
    that does not return is reported, unless it is `slow`, and is ended after `limit_s` seconds. An exception of the
    plugin is raised as `PluginError`, whose message starts with `fault`; `LlmbxError`s of the plugin are not changed.
    With `wrapped`, the exception itself is raised, because a hook wrapper around this call may handle it; `origin`
    returns its call. A call `of_items` sets `item` to each item before the plugin gets it, and to None afterwards; its
    exceptions are not changed, as the items may come from elsewhere.
    """

    __slots__ = (
        "_of_items",
        "_wrapped",
        "began",
        "fault",
        "item",
        "limit_s",
        "name",
        "notice_s",
        "owner",
        "reported",
        "seen",
    )

    def __init__(
        self, owner: str, name: str, fault: str = "", limit_s: float = NEVER, wrapped: bool = False,
        of_items: bool = False, slow: bool = False,
    ) -> None:  # fmt: skip
        self.owner, self.name, self.limit_s, self._wrapped = owner, name, limit_s, wrapped
        self._of_items = of_items
        self.fault = fault or f"{owner}: {name} failed"
        self.notice_s = NEVER if slow else notice_s()
        self.item: object = None if of_items else name
        self.seen: object = self.item
        self.reported = False
        self.began = 0.0

    @property
    def title(self) -> str:
        """The plugin and the call, for messages."""
        return f"{self.owner}: {self.name}"

    def __enter__(self) -> Call:
        if self.title in alarm.given_up:
            raise PluginError(f"{self.title} is not called again: it was interrupted because it did not return")
        self.began = time.monotonic()
        stdout.redirect()
        alarm.begin(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.item = None  # it has returned: the alarm does not end it any more
        alarm.end()
        stdout.restore()
        if isinstance(error, KeyboardInterrupt) and self.reported:
            alarm.given_up.add(self.title)
        if isinstance(error, TookTooLong) and error.call is self:
            limit = PluginError(f"{self.title} did not return within {self.limit_s:g} s ({VARIABLE} sets the limit)")
            raise self._signed(limit) from None
        if not isinstance(error, PLUGIN_EXCEPTIONS) or self._of_items:
            return
        if self._wrapped:
            self._signed(error)
        elif not isinstance(error, LlmbxError):
            raise failure(self.fault, error) from error

    def _signed(self, error: BaseException) -> BaseException:
        """Mark the error as one of this call, unless a call inside this one has raised it."""
        vars(error).setdefault(_ORIGIN, self)
        return error


_ORIGIN = "_llmbx_call"


def origin(error: BaseException) -> Call | None:
    """The `wrapped` call that raised the error first."""
    call: Call | None = vars(error).get(_ORIGIN)
    return call


def blamed(error: BaseException, fault: str) -> PluginError:
    """The `PluginError` for an exception of `wrapped` calls: it begins with the fault of the call that raised it."""
    call = origin(error)
    plugin_error = failure(call.fault if call else fault, error)
    vars(plugin_error)[_ORIGIN] = call
    return plugin_error


def debugging() -> bool:
    """Whether the user wants tracebacks (LLMBX_DEBUG=1)."""
    return os.environ.get("LLMBX_DEBUG", "") not in ("", "0")


def describe_error(error: BaseException) -> str:
    """Describe an exception in one line; with LLMBX_DEBUG=1, print its traceback first."""
    if debugging():
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    return one_line(error)


def failure(what: str, error: BaseException) -> PluginError:
    """Return the `PluginError` for `error`; `what` names the plugin and the call that failed."""
    hint = "" if debugging() else " (LLMBX_DEBUG=1 shows the traceback)"
    return PluginError(f"{what}: {describe_error(error)}{hint}")


def is_wrapper(implementation: pluggy.HookImpl) -> bool:
    """Whether it wraps the calls of other implementations, in pluggy's new or old style."""
    return implementation.wrapper or implementation.hookwrapper
