"""Callbacks for the training loops of Megatron-Bridge 0.1 and 0.2, which do not support callbacks.

The functions of the loop are wrapped to notify the callbacks; their arguments and results are passed on unchanged.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

__all__ = ["Callback", "attach", "has_callbacks"]

try:
    from megatron.bridge.training.callbacks import Callback
except ModuleNotFoundError:

    class Callback:  # type: ignore[no-redef]
        """The callbacks of Megatron-Bridge 0.3 and newer; `context` has `state`, `model` and `optimizer`."""

        def on_train_start(self, context: Any) -> None: ...
        def on_train_step_start(self, context: Any) -> None: ...
        def on_train_step_end(self, context: Any) -> None: ...
        def on_train_end(self, context: Any) -> None: ...


def has_callbacks(pretrain: Callable[..., Any]) -> bool:
    """Whether the installed version's `pretrain` takes callbacks."""
    return "callbacks" in inspect.signature(pretrain).parameters


def attach(callbacks: Sequence[Callback]) -> None:
    """Make the loop notify `callbacks` before and after the training and every step, as later versions do."""
    from megatron.bridge.training import pretrain, train

    pretrain.train = _notifying(train.train, callbacks, "on_train_start", "on_train_end")
    train.train_step = _notifying(train.train_step, callbacks, "on_train_step_start", "on_train_step_end")


def _notifying(
    function: Callable[..., Any], callbacks: Sequence[Callback], before: str, after: str
) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = signature.bind(*args, **kwargs).arguments
        context = SimpleNamespace(
            state=arguments["global_state"], model=arguments["model"], optimizer=arguments["optimizer"]
        )
        for callback in callbacks:
            getattr(callback, before)(context)
        result = function(*args, **kwargs)
        for callback in callbacks:
            getattr(callback, after)(context)
        return result

    return call
