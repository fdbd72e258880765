"""Guard the hook implementations of plugins, and call those of one plugin with the wrappers of all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any

import pluggy

from ..errors import LlmbxError, PluginError
from .calls import Call, blamed
from .faults import PLUGIN_EXCEPTIONS
from .hangs import NEVER, UNLIMITED, limit_s
from .validation import validate, validate_wrapped


def call(manager: pluggy.PluginManager, name: str, hook: str, arguments: dict[str, Any]) -> Any:
    """Call the implementations of the plugin `name`, inside the hook wrappers of every plugin, in pluggy's order.

    Every answer is validated. Raises `PluginError`, which names the plugin of the implementation or wrapper at fault.
    """
    caller: pluggy.HookCaller = getattr(manager.hook, hook)
    chosen = [_guarded(each, hook) for each in caller.get_hookimpls() if is_wrapper(each) or each.plugin_name == name]
    first = bool(caller.spec and caller.spec.opts.get("firstresult"))
    try:
        # pluggy can leave out whole plugins (`subset_hook_caller`), but their wrappers must stay.
        return manager._hookexec(hook, chosen, arguments, first)
    except LlmbxError:
        raise
    except PLUGIN_EXCEPTIONS as error:
        fault = blamed(error, f"plugin '{name}': {hook} failed")
        _mark(fault, culprit(error) or name)
        raise fault from error


_CULPRIT = "_llmbx_plugin"


def culprit(error: BaseException) -> str | None:
    """The plugin whose implementation or wrapper raised an error of `call`."""
    name: str | None = vars(error).get(_CULPRIT)
    return name


def _mark(error: BaseException, plugin: str) -> None:
    vars(error).setdefault(_CULPRIT, plugin)


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


def is_wrapper(implementation: pluggy.HookImpl) -> bool:
    """Whether it wraps the calls of other implementations, in pluggy's new or old style."""
    return implementation.wrapper or implementation.hookwrapper


def _guarded(implementation: pluggy.HookImpl, hook: str) -> pluggy.HookImpl:
    """The implementation, whose faults, hangs and invalid answers are those of its plugin."""
    guard = _wrapper if is_wrapper(implementation) else _plain
    function = functools.wraps(implementation.function)(guard(implementation, hook))
    options: Any = {**implementation.opts, "wrapper": is_wrapper(implementation), "hookwrapper": False}
    return pluggy.HookImpl(implementation.plugin, implementation.plugin_name, function, options)


def _limit(hook: str) -> float:
    return NEVER if hook in UNLIMITED else limit_s()


def _plain(implementation: pluggy.HookImpl, hook: str) -> Callable[..., Any]:
    owner = f"plugin '{implementation.plugin_name}'"

    def guard(*arguments: Any, **named: Any) -> Any:
        try:
            with Call(owner, hook, limit_s=_limit(hook), wrapped=True):
                answer = implementation.function(*arguments, **named)
            return validate(f"{owner}: {hook}", hook, answer)
        except PLUGIN_EXCEPTIONS as error:
            _mark(error, implementation.plugin_name)
            raise

    return guard


def _wrapper(implementation: pluggy.HookImpl, hook: str) -> Callable[..., Generator[None, Any, Any]]:
    owner, name = f"plugin '{implementation.plugin_name}'", f"wrapper of {hook}"

    def step(run: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
        """Run the wrapper to its yield or to its end; return whether it has ended, and its answer."""
        with Call(owner, name, limit_s=_limit(hook), wrapped=True):
            try:
                return False, run(*arguments)
            except StopIteration as end:
                return True, end.value

    def guard(*arguments: Any, **named: Any) -> Generator[None, Any, Any]:
        try:
            return (yield from wrap(*arguments, **named))
        except PLUGIN_EXCEPTIONS as error:
            _mark(error, implementation.plugin_name)  # unless it has the mark of what is inside
            raise

    def wrap(*arguments: Any, **named: Any) -> Generator[None, Any, Any]:
        generator: Any = implementation.function(*arguments, **named)
        ended, _ = step(next, generator)
        if ended:
            raise PluginError(f"{owner}: {name} does not yield, expected exactly one yield")
        inner = yield from _outcome()
        if implementation.hookwrapper:
            ended, _ = step(generator.send, inner)
            answer = step(inner.get_result)[1] if ended else None
        elif inner.exception is not None:
            ended, answer = step(generator.throw, inner.exception)
        else:
            ended, answer = step(generator.send, inner.get_result())
        if not ended:
            generator.close()
            raise PluginError(f"{owner}: {name} has a second yield, expected exactly one")
        return validate_wrapped(f"{owner}: {name}", hook, answer)

    return guard


def _outcome() -> Generator[None, Any, pluggy.Result[Any]]:
    """Yield once, and return the outcome of what the wrapper is around."""
    try:
        return pluggy.Result((yield), None)
    except PLUGIN_EXCEPTIONS as error:
        return pluggy.Result(None, error)
