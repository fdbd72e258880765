"""What a NeMo 2 run runs with, by dotted keys: the objects as the recipe builds them, and as they are once connected.

- `config.*`: the model's configuration before the strategy writes parallelism and dtypes into it;
- `strategy.*`, `precision.*`, `callbacks.CLASS.*`, `data.*`, `optim.config.*`: the built objects;
- `strategy_args.*`, `precision_args.*`, `callback_args.CLASS.*`, `optim.lr_scheduler.*`, `log.*`, `resume.*`,
  `trainer.*`: what they were made from, with their defaults (of the trainer: what the recipe passes);
- `connected.config.*`, `connected.optim_config.*`, `connected.ddp_config.*`: what the model is made with.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Collection
from typing import Any

from llmbx_nemo.entry import final
from llmbx_nemo.entry.nemo2_recipe import kind

LEFT_OUT = {"timers", "store", "megatron_callbacks"}
"""Attributes of the strategy that are state and no configuration."""

ALREADY = ("callbacks", "plugins", "strategy")
"""Arguments of the trainer that have sections of their own."""

ELSEWHERE = {"model_cfg": "config", "data_cfg": "data"}
"""Members of a callback that stand elsewhere in the same configuration, and where."""

Flat = dict[str, Any]


def built(recipe: Any, parts: Any) -> Flat:
    """The sections of a recipe and of the objects that were built from it, before anything is connected."""
    trainer = recipe.trainer
    found: Flat = {
        "task.callable": final.qualified(recipe.__fn_or_cls__),
        "callback_order": [kind(item) for item in trainer.callbacks],
        "data.tokenizer": call(recipe.data.tokenizer),
    }
    final.spread("config", parts.model.config, found, ())
    final.spread("precision", parts.precision.dtype_config, found, ())
    spread("strategy", parts.strategy, found, without=LEFT_OUT)
    spread("data", parts.data, found, without={"tokenizer"})
    spread("optim", parts.optim, found, without={"lr_scheduler"})
    for item in parts.callbacks:
        name = f"callbacks.{type(item).__name__}"
        spread(name, item, found, without=ELSEWHERE)
        found |= {f"{name}.{key}": {"same_as": where} for key, where in ELSEWHERE.items() if hasattr(item, key)}
    arguments("model", recipe.model, found, without={"config", "tokenizer"})
    arguments("strategy_args", trainer.strategy, found, named=False)
    arguments("precision_args", trainer.plugins, found)
    arguments("optim.lr_scheduler", recipe.optim.lr_scheduler, found)
    arguments("data", recipe.data, found, without={"tokenizer"})
    arguments("log", recipe.log, found)
    arguments("resume", recipe.resume, found)
    for item in trainer.callbacks:
        arguments(f"callback_args.{kind(item)}", item, found, without={"model_config", "data_config"}, named=False)
    for name, value in given(trainer).items():
        if name not in ALREADY:
            final.spread(f"trainer.{name}", value, found, ())
    found["trainer.class"] = final.qualified(trainer.__fn_or_cls__)
    return found


def connected(config: Any, optim_config: Any, ddp_config: Any, data_parallel_size: int) -> Flat:
    """The sections of what the model is made with. Timers are state, and written as null."""
    found: Flat = {"connected.data_parallel_size": data_parallel_size}
    for name, value in (("config", config), ("optim_config", optim_config), ("ddp_config", ddp_config)):
        spread(f"connected.{name}", value, found, without={"timers"})
    found["connected.config.timers"] = found["connected.optim_config.timers"] = None
    return found


def given(config: Any) -> Flat:
    """The arguments that a Fiddle configuration passes."""
    return dict(config.__arguments__)


def call(config: Any) -> Flat:
    """The constructor's call that a Fiddle configuration stands for."""
    return {"callable": final.qualified(config.__fn_or_cls__), "kwargs": final.plain(given(config))}


def arguments(name: str, config: Any, found: Flat, without: Collection[str] = (), named: bool = True) -> None:
    """Put what a Fiddle configuration passes, and the other arguments' defaults, under `name` into `found`."""
    import fiddle

    kind = config.__fn_or_cls__
    factories: dict[str, Any] = {field.name: field.default_factory for field in _fields(kind)}
    for key, value in {**_defaults(kind), **given(config)}.items():
        if key in without:
            continue
        if type(value).__name__ == "_HAS_DEFAULT_FACTORY_CLASS":
            value = factories[key]()
        value = fiddle.build(copy.deepcopy(value)) if isinstance(value, fiddle.Buildable) else value
        final.spread(f"{name}.{key}", value, found, ())
    if named:
        found[f"{name}.class"] = final.qualified(kind)


def _fields(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


def _defaults(kind: Any) -> Flat:
    parameters = inspect.signature(kind).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}


def spread(name: str, value: Any, found: Flat, without: Collection[str]) -> None:
    """As `final.spread`, but for some members of the object."""
    found[f"{name}.class"] = final.qualified(type(value))
    for key, item in final.members(value).items():
        if key not in without:
            final.spread(f"{name}.{key}", item, found, (id(value),))
