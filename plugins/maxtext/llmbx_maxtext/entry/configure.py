"""The program that builds MaxText's final configuration, without a GPU and without training.

It is started as `python code/configure.py [SOURCE]` in a folder with `spec.json`, which has MaxText's arguments of every
training phase by the beginning of its keys. MaxText is the installed package, or the source tree SOURCE. The host has
as many forced devices as the run has GPUs; as on GPUs, the devices of a node are a slice.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llmbx.entry import final, rank, seen
from llmbx_maxtext.entry import configuration

UNUSED = "checkpointing"
"""Module of a source tree that loads TensorFlow, and has no part in the configuration."""


def main(argv: Sequence[str]) -> None:
    """Write the configuration of every phase in one file."""
    spec, folder = rank.begin()
    module, utils, config = of_tree(Path(argv[0])) if argv else of_package(spec["program"]["module"].split(".")[0])
    utils.maybe_initialize_jax_distributed_system = lambda *_, **__: None
    if spec["gpu_type"] != "cpu":
        utils.get_num_slices = lambda *_, **__: max(1, spec["gpus"] // spec["gpus_per_node"])
    values: dict[str, Any] = {}
    for begin, arguments in spec["phases"].items():
        made = module.initialize(["train", str(config), *arguments])
        keys = configuration.values_of(module.config if made is None else made)
        values |= {f"{begin}{key}": value for key, value in keys.items()}
    final.write_flat(values, seen.versions(configuration.PACKAGES), folder)


def of_package(name: str) -> tuple[Any, Any, Path]:
    """Return a package's module for the configuration, that of its utilities, and its base.yml."""
    package = importlib.import_module(name)
    utils = importlib.import_module(f"{name}.utils.max_utils")
    module = importlib.import_module(f"{name}.configs.pyconfig")
    return module, utils, Path(next(iter(package.__path__)), "configs/base.yml")


def of_tree(source: Path) -> tuple[Any, Any, Path]:
    """The same of a source tree, before or after MaxText became a package. Ends the program if it is neither."""
    if (source / "src/maxtext/configs/base.yml").is_file():
        sys.path.insert(0, str(source / "src"))
        return of_package("maxtext")
    config = source / "MaxText/configs/base.yml"
    if not config.is_file():
        rank.stop(f"{source} is not a source tree of MaxText: MaxText/configs/base.yml does not exist")
    sys.path.insert(0, str(source / "MaxText"))
    sys.modules[UNUSED] = types.ModuleType(UNUSED)
    return importlib.import_module("pyconfig"), importlib.import_module("max_utils"), config


if __name__ == "__main__":
    main(sys.argv[1:])
