"""Call the hook implementations of one plugin, inside the hook wrappers of all, and guard each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pluggy

from ..errors import LlmbxError, PluginError
from .calls import PLUGIN_EXCEPTIONS, Call, blamed, is_wrapper, origin
from .hangs import NEVER, UNLIMITED, limit_s
from .validation import validate, validate_wrapped

if TYPE_CHECKING:
    pass

Hook = Callable[..., Any]
"""The specification of a hook."""


def call(manager: pluggy.PluginManager, name: str, hook: str, arguments: dict[str, Any]) -> Any:
    """Call the implementations of the plugin `name`, inside the hook wrappers of every plugin, in pluggy's order.

    Every answer is validated. Raises `PluginError`, which names the plugin of the implementation or wrapper at fault.
    """
    caller: pluggy.HookCaller = getattr(manager.hook, hook)
    assert caller.spec is not None
    chosen = [
        _guarded(each, caller.spec.function)
        for each in caller.get_hookimpls()
        if is_wrapper(each) or each.plugin_name == name
    ]
    first = bool(caller.spec.opts.get("firstresult"))
    try:
        # pluggy can leave out whole plugins (`subset_hook_caller`), but their wrappers must stay.
        return manager._hookexec(hook, chosen, arguments, first)
    except LlmbxError:
        raise
    except PLUGIN_EXCEPTIONS as error:
        raise blamed(error, f"plugin '{name}': {hook} failed") from error


class HookCall(Call):
    """The call of an implementation or of a wrapper of a hook. Its exception may be handled by a wrapper around it."""

    __slots__ = ("plugin",)

    def __init__(self, implementation: pluggy.HookImpl, hook: str) -> None:
        self.plugin = implementation.plugin_name
        name = f"wrapper of {hook}" if is_wrapper(implementation) else hook
        limit = NEVER if hook in UNLIMITED else limit_s()
        super().__init__(f"plugin '{self.plugin}'", name, limit_s=limit, wrapped=True)


def culprit(error: BaseException) -> str | None:
    """The plugin whose implementation or wrapper raised an error of `call`."""
    source = origin(error)
    return source.plugin if isinstance(source, HookCall) else None


def implementers(manager: pluggy.PluginManager, hook: str, newest_first: bool = False) -> list[str]:
    """Return the plugins that implement a hook and do not only wrap it: `tryfirst`, the others, `trylast`.

    The others are in the order in which they were loaded, or with `newest_first` in pluggy's, which is the reverse.
    """
    caller: pluggy.HookCaller = getattr(manager.hook, hook)
    implementations = [each for each in reversed(caller.get_hookimpls()) if not is_wrapper(each)]
    if not newest_first:
        order = [name for name, _ in manager.list_name_plugin()]
        implementations.sort(key=lambda each: (each.trylast - each.tryfirst, order.index(each.plugin_name)))
    return list(dict.fromkeys(each.plugin_name for each in implementations))


@functools.lru_cache(maxsize=1024)  # a search calls the same hook thousands of times
def _guarded(implementation: pluggy.HookImpl, hook: Hook) -> pluggy.HookImpl:
    """The implementation, whose faults, hangs and invalid answers are those of its plugin."""
    guard = _wrapper if is_wrapper(implementation) else _plain
    function = functools.wraps(implementation.function)(guard(implementation, hook))
    options: Any = {**implementation.opts, "wrapper": is_wrapper(implementation), "hookwrapper": False}
    return pluggy.HookImpl(implementation.plugin, implementation.plugin_name, function, options)


def _plain(implementation: pluggy.HookImpl, hook: Hook) -> Callable[..., Any]:
    def guard(*arguments: Any) -> Any:
        with HookCall(implementation, hook.__name__) as call:
            return validate(call.title, hook, implementation.function(*arguments))

    return guard


def _wrapper(implementation: pluggy.HookImpl, hook: Hook) -> Callable[..., Generator[None, Any, Any]]:
    def guard(*arguments: Any) -> Generator[None, Any, Any]:
        generator: Any = implementation.function(*arguments)
        with HookCall(implementation, hook.__name__) as call:
            try:
                next(generator)
            except StopIteration:
                raise PluginError(f"{call.title} does not yield, expected exactly one yield") from None
        inner = yield from _outcome()
        with HookCall(implementation, hook.__name__) as call:
            try:
                _resume(generator, inner, implementation.hookwrapper)
            except StopIteration as end:
                answer = inner.get_result() if implementation.hookwrapper else end.value
                return validate_wrapped(call.title, hook, answer)
            generator.close()
            raise PluginError(f"{call.title} has a second yield, expected exactly one")

    return guard


def _outcome() -> Generator[None, Any, pluggy.Result[Any]]:
    """Yield once, and return the outcome of what the wrapper is around."""
    try:
        return pluggy.Result((yield), None)
    except PLUGIN_EXCEPTIONS as error:
        return pluggy.Result(None, error)


def _resume(generator: Any, inner: pluggy.Result[Any], old_style: bool) -> None:
    """Give a wrapper the outcome of what it is around, as pluggy does for its style."""
    if old_style:
        generator.send(inner)
    elif inner.exception is not None:
        generator.throw(inner.exception)
    else:
        generator.send(inner.get_result())


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
