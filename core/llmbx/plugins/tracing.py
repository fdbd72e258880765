"""Print the calls of hooks (`LLMBX_TRACE_HOOKS`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .calls import is_wrapper

if TYPE_CHECKING:
    import pluggy


def trace(manager: pluggy.PluginManager, emit: Callable[[str], None]) -> None:
    """Emit a line before and after every hook call, with the plugins called and the result."""

    def before(hook: str, implementations: Any, arguments: Any) -> None:
        called = ", ".join(map(_named, reversed(implementations))) or "no plugin"
        emit(f"hook {hook}({', '.join(arguments)}) -> {called}")

    def after(outcome: Any, hook: str, implementations: Any, arguments: Any) -> None:
        error = outcome.exception
        answer = f"raised {type(error).__name__}: {error}" if error else _brief(outcome.get_result())
        emit(f"hook {hook} <- {answer}")

    manager.add_hookcall_monitoring(before, after)


def _named(implementation: pluggy.HookImpl) -> str:
    return f"{implementation.plugin_name} (wrapper)" if is_wrapper(implementation) else implementation.plugin_name


def _brief(answer: Any) -> str:
    if isinstance(answer, list):
        return f"[{', '.join(_brief(a) for a in answer)}]"
    if isinstance(answer, tuple):
        return f"{len(answer)} items"
    return "None" if answer is None else type(answer).__name__
