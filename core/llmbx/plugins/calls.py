"""The one way into a plugin's code: its output, its exceptions and its hangs are those of a named plugin and call."""

from __future__ import annotations

import time
from types import TracebackType

from ..errors import LlmbxError, PluginError
from . import stdout
from .faults import PLUGIN_EXCEPTIONS, failure
from .hangs import NEVER, VARIABLE, TookTooLong, alarm, notice_s

SLOW = frozenset({"prepare", "gather_wheels", "look_inside", "submit", "cancel", "cancel_pending", "check"})
"""Methods that may take minutes and report their progress themselves, or wait for the end of processes."""


class Call:
    """One call into a plugin, as a context manager around it. Raises `PluginError` if it is not called again.

    `owner` names the plugin ("plugin 'toy'"), `name` the call. Standard output goes to standard error meanwhile. A call
    that does not return is reported, and is ended after `limit_s` seconds. An exception of the plugin is raised as
    `PluginError`, whose message starts with `fault`; `LlmbxError`s of the plugin are not changed. With `wrapped`, the
    exception itself is raised, with a mark for `blamed`: a hook wrapper around this call may handle it. A call
    `of_items` sets `item` to each item before the plugin gets it, and to None afterwards; its exceptions are not
    changed, as the items may come from elsewhere.
    """

    __slots__ = (
        "_fault",
        "_of_items",
        "_wrapped",
        "began",
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
        of_items: bool = False,
    ) -> None:  # fmt: skip
        self.owner, self.name, self.limit_s, self._wrapped = owner, name, limit_s, wrapped
        self._of_items = of_items
        self._fault = fault or f"{owner}: {name} failed"
        self.notice_s = NEVER if name.partition(" ")[0] in SLOW else notice_s()
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
            what = f"{self.title} did not return within {self.limit_s:g} s"
            raise PluginError(f"{what} ({VARIABLE} sets the limit)") from None
        if not isinstance(error, PLUGIN_EXCEPTIONS) or isinstance(error, LlmbxError) or self._of_items:
            return
        if self._wrapped:
            vars(error).setdefault(_MARK, self._fault)
            return
        raise failure(self._fault, error) from error


_MARK = "_llmbx_fault"


def blamed(error: BaseException, fault: str) -> PluginError:
    """The error for an exception of a `wrapped` call: it begins with the fault of the call that raised it first."""
    return failure(vars(error).get(_MARK, fault), error)
