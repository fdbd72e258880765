"""The final configuration of a NeMo 2 run, by dotted keys.

It contains the objects as the recipe builds them, and as they are once the strategy is connected to the model:

- `config.*`: the model's configuration before the strategy writes parallelism and dtypes into it;
- `strategy.*`, `precision.*`, `callbacks.CLASS.*`, `data.*`, `optim.config.*`: the built objects;
- `strategy_args.*`, `precision_args.*`, `callback_args.CLASS.*`, `optim.lr_scheduler.*`, `log.*`, `resume.*`,
  `trainer.*`: their constructor arguments with defaults (for the trainer, only those that the recipe passes);
- `connected.config.*`, `connected.optim_config.*`, `connected.ddp_config.*`: what the model is created with.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Collection
from typing import Any

from llmbx.entry import final
from llmbx_nemo.entry.nemo2_recipe import kind

STATE = {"timers", "store", "megatron_callbacks"}
"""Attributes of the strategy that are runtime state, not configuration."""

SEPARATE = ("callbacks", "plugins", "strategy")
"""Arguments of the trainer that have their own sections."""

REFERENCES = {"model_cfg": "config", "data_cfg": "data"}
"""Attributes of a callback that refer to another section, and the name of that section."""

Flat = dict[str, Any]


def built(recipe: Any, parts: Any) -> Flat:
    """Return the sections of a recipe and of the objects built from it, before anything is connected."""
    trainer = recipe.trainer
    flat: Flat = {
        "task.callable": final.qualified(recipe.__fn_or_cls__),
        "callback_order": [kind(item) for item in trainer.callbacks],
        "data.tokenizer": call(recipe.data.tokenizer),
    }
    final.spread("config", parts.model.config, flat, ())
    final.spread("precision", parts.precision.dtype_config, flat, ())
    spread("strategy", parts.strategy, flat, without=STATE)
    spread("data", parts.data, flat, without={"tokenizer"})
    spread("optim", parts.optim, flat, without={"lr_scheduler"})
    for item in parts.callbacks:
        name = f"callbacks.{type(item).__name__}"
        spread(name, item, flat, without=REFERENCES)
        flat |= {f"{name}.{key}": {"same_as": where} for key, where in REFERENCES.items() if hasattr(item, key)}
    arguments("model", recipe.model, flat, without={"config", "tokenizer"})
    arguments("strategy_args", trainer.strategy, flat, named=False)
    arguments("precision_args", trainer.plugins, flat)
    arguments("optim.lr_scheduler", recipe.optim.lr_scheduler, flat)
    arguments("data", recipe.data, flat, without={"tokenizer"})
    arguments("log", recipe.log, flat)
    arguments("resume", recipe.resume, flat)
    for item in trainer.callbacks:
        arguments(f"callback_args.{kind(item)}", item, flat, without={"model_config", "data_config"}, named=False)
    for name, value in passed(trainer).items():
        if name not in SEPARATE:
            final.spread(f"trainer.{name}", value, flat, ())
    flat["trainer.class"] = final.qualified(trainer.__fn_or_cls__)
    return flat


def connected(config: Any, optim_config: Any, ddp_config: Any, data_parallel_size: int) -> Flat:
    """Return the sections of what the model is created with. Timers are runtime state, and written as null."""
    flat: Flat = {"connected.data_parallel_size": data_parallel_size}
    for name, value in (("config", config), ("optim_config", optim_config), ("ddp_config", ddp_config)):
        spread(f"connected.{name}", value, flat, without={"timers"})
    flat["connected.config.timers"] = flat["connected.optim_config.timers"] = None
    return flat


def passed(config: Any) -> Flat:
    """Return the arguments that a Fiddle configuration passes."""
    return dict(config.__arguments__)


def call(config: Any) -> Flat:
    """Return the constructor call that a Fiddle configuration describes."""
    return {"callable": final.qualified(config.__fn_or_cls__), "kwargs": final.plain(passed(config))}


def arguments(name: str, config: Any, found: Flat, without: Collection[str] = (), named: bool = True) -> None:
    """Add the arguments that a Fiddle configuration passes, and the defaults of the others, to `found` under `name`.

    With `named`, the class is added, too.
    """
    import fiddle

    kind = config.__fn_or_cls__
    factories: dict[str, Any] = {field.name: field.default_factory for field in _fields(kind)}
    for key, value in {**_defaults(kind), **passed(config)}.items():
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
    """Add an object to `found` like `final.spread`, except for the attributes `without`."""
    found[f"{name}.class"] = final.qualified(type(value))
    for key, item in final.members(value).items():
        if key not in without:
            final.spread(f"{name}.{key}", item, found, (id(value),))
