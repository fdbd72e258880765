"""Call the performance recipes of a Megatron-Bridge tree without its dependencies, and print what they set as JSON.

Run as a program of its own: `python -I -S record.py TREE`, TREE being the folder that holds `megatron/`. The modules of
recipes are upstream's; everything that they import from elsewhere (torch, Megatron-Core, Transformers) is a stand-in
whose objects only remember what is set on them. Uses the standard library only.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import inspect
import json
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

RECIPES = "megatron.bridge.perf_recipes"
REAL = (RECIPES, "megatron.bridge.recipes")
"""Packages whose modules are executed; the rest of the tree is represented by stand-ins."""

FIELDS = {
    "tp": "model.tensor_model_parallel_size",
    "pp": "model.pipeline_model_parallel_size",
    "cp": "model.context_parallel_size",
    "vp": "model.virtual_pipeline_model_parallel_size",
    "ep": "model.expert_model_parallel_size",
    "etp": "model.expert_tensor_parallel_size",
    "mbs": "train.micro_batch_size",
    "gbs": "train.global_batch_size",
    "graphs": "model.cuda_graph_impl",
    "recompute": "model.recompute_granularity",
    "recompute_layers": "model.recompute_num_layers",
    "offload": "model.cpu_offloading",
    "offload_layers": "model.cpu_offloading_num_layers",
    "fsdp": "ddp.use_megatron_fsdp",
    "sequence_length": "model.seq_length",
    "env": "env_vars",
}
"""What is read of a configuration, by the name in the output."""


LACKING: list[str] = []
"""Names of files that the function being called would read, and that the tree lacks."""


class Thing:
    """A stand-in: any attribute may be read, set or called. `origin` is the first text in the call that made it."""

    def __init__(self, origin: str | None = None, **values: Any) -> None:
        self.__dict__["_origin"] = origin
        self.__dict__.update(values)

    def __init_subclass__(cls, **_: Any) -> None:
        super().__init_subclass__()

    def __getattr__(self, name: str) -> Any:
        if name == "__dataclass_fields__":
            return {}  # 0.4 lists the fields of Megatron-Core's classes
        if name.startswith("__"):
            raise AttributeError(name)
        value = Thing(self._origin)
        self.__dict__[name] = value
        return value

    def __call__(self, *arguments: Any, **values: Any) -> Thing:
        texts = [argument for argument in arguments if isinstance(argument, str)]
        LACKING.extend(Path(text).name for text in texts if text.startswith("/") and not Path(text).exists())
        return Thing(texts[0] if texts else self._origin, **values)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, key: Any) -> Thing:
        return Thing(self._origin)

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (Thing,)

    def __or__(self, value: Any) -> Thing:
        return self

    __ror__ = __or__

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, Thing)


class StandIn(types.ModuleType):
    """A module with a stand-in for every name; `source` is the file that it represents, if the tree has it."""

    __path__: list[str] = []

    def __init__(self, name: str, source: Path) -> None:
        super().__init__(name)
        self.__all__ = list(public_names(source)) if source.is_file() else []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = Thing()
        setattr(self, name, value)
        return value


def public_names(source: Path) -> Iterator[str]:
    """Yield what `from MODULE import *` takes from a module that has no `__all__`."""
    for statement in ast.parse(source.read_text(encoding="utf-8")).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement]
        for target in targets:
            name = getattr(target, "id", getattr(target, "name", None))
            if isinstance(name, str) and not name.startswith("_"):
                yield name


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Find stand-ins for all modules but the standard library's and the recipes'.

    `more` are further packages whose modules are executed, with their folders.
    """

    def __init__(self, tree: Path, more: Mapping[str, Path] = {}) -> None:
        self.tree = tree
        self.folders = {**dict.fromkeys(REAL, tree), **more}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of a module of the recipes, or of a stand-in."""
        if name.partition(".")[0] in sys.stdlib_module_names:
            return None
        for package, root in self.folders.items():
            if name == package or name.startswith(f"{package}."):
                folder = root.joinpath(*name.split(".")[:-1])
                return importlib.machinery.PathFinder.find_spec(name, [str(folder)])
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return the stand-in."""
        return StandIn(spec.name, self.tree.joinpath(*spec.name.split(".")).with_suffix(".py"))

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave the stand-in as it is."""


def modules(tree: Path) -> Iterator[str]:
    """Yield the names of the modules of performance recipes."""
    folder = tree.joinpath(*RECIPES.split("."))
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(tree).with_suffix("")
        if path.name != "__init__.py":
            yield ".".join(name.parts)


def read(configuration: Any, path: str) -> Any:
    """Return a value that was set; None for a stand-in, or if there is none."""
    value = configuration
    for name in path.split("."):
        value = vars(value).get(name) if isinstance(value, Thing) else None
    return value if isinstance(value, (str, int, float, bool, dict)) else None


def parts(name: str) -> dict[str, Any] | None:
    """Return what the name of a pre-training function says (MODEL_pretrain_64gpu_h100_bf16_config), or None."""
    model, _, rest = name.partition("_pretrain_")
    words = rest.split("_")
    gpus = words[0].removesuffix("gpu")
    if model.startswith("_") or len(words) < 4 or words[-1] != "config" or not gpus.isdigit() or gpus == words[0]:
        return None
    return {"model": model, "gpus": int(gpus), "gpu_type": words[1], "variant": "_".join(words[2:-1])}


def values(configuration: Any) -> dict[str, Any]:
    """Return what a function has set, and which files it lacks."""
    model = vars(configuration).get("model")
    return {
        "files": sorted(set(LACKING)),
        "hub": model._origin if isinstance(model, Thing) else None,
        **{key: read(configuration, path) for key, path in FIELDS.items()},
    }


def rows(tree: Path) -> Iterator[dict[str, Any]]:
    """Yield what each pre-training function sets; `error` for one that cannot be called."""
    for module_name in modules(tree):
        module = importlib.import_module(module_name)
        for name, function in sorted(vars(module).items()):
            named = parts(name)
            if named is None or not inspect.isfunction(function):
                continue
            if function.__module__ != module_name and function.__name__ == name:
                continue  # imported; under another name it is a recipe of this module
            alias = function.__name__ != name
            row: dict[str, Any] = {"function": name, "module": module_name, "alias": alias, **named}
            LACKING.clear()
            try:
                configuration = function()
            except Exception as error:
                yield row | {"error": f"{type(error).__name__}: {error}"}
                continue
            yield row | values(configuration)


def main() -> None:
    """Print a JSON array."""
    tree = Path(sys.argv[1]).resolve()
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, Finder(tree))
    json.dump(list(rows(tree)), sys.stdout)


if __name__ == "__main__":
    main()
