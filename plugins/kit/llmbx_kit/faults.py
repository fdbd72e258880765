"""Let each hook of a plugin raise in turn: llmbx must name the plugin and the hook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmbx.api import LlmbxError, plural

from .outcome import Found, judged
from .subject import Subject


def faults(subject: Subject) -> Found:
    """Return whether llmbx attributes a fault of each hook to the plugin."""
    hooks = [*_implementations(subject)]
    texts = [_fault(subject, *hook) for hook in hooks]
    return judged([text for text in texts if text], plural(len(hooks), "hooks"))


def _implementations(subject: Subject) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Yield hook, arguments and implementation of all hooks, also of those that it wraps."""
    manager = subject.plugins.manager
    plugin = manager.get_plugin(subject.name)
    for caller in manager.get_hookcallers(plugin) or []:
        for implementation in caller.get_hookimpls():
            if implementation.plugin is plugin and caller.spec is not None:
                yield caller.name, caller.spec.argnames, implementation


def _fault(subject: Subject, hook: str, arguments: tuple[str, ...], implementation: Any) -> str:
    def broken(*_: Any) -> None:
        raise RuntimeError("a fault made on purpose")

    function, implementation.function = implementation.function, broken
    try:
        subject.plugins.ask(subject.name, hook, **dict.fromkeys(arguments))
    except LlmbxError as error:
        if f"'{subject.name}'" in str(error) and hook in str(error):
            return ""
        return f"a fault in {hook} is reported without plugin and hook: {error}"
    finally:
        implementation.function = function
    return f"a fault in {hook} is not noticed"
