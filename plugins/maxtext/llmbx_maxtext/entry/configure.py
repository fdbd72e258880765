"""The program that builds MaxText's final configuration, without a GPU and without training.

`python code/configure.py [--source=TREE] [SPEC ...]` reads specifications (`spec.json` by default), each with MaxText's
arguments of every training phase by the beginning of its keys, and writes `configs/final.json` in the folder of the
file. MaxText is the installed package, or a source tree. It is shown as many devices as the run has GPUs; as on GPUs,
the devices of a node are a slice.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llmbx.entry import final, rank, seen
from llmbx_maxtext.entry import configuration

SOURCE = "--source="

UNUSED = "checkpointing"
"""Module of a source tree that loads TensorFlow, and has no part in the configuration."""


def main(argv: Sequence[str]) -> None:
    """Write the configurations."""
    sources = [word.removeprefix(SOURCE) for word in argv if word.startswith(SOURCE)]
    files = [Path(word) for word in argv if not word.startswith(SOURCE)] or [Path("spec.json")]
    module, utils, config = of_tree(Path(sources[0])) if sources else of_package("maxtext")
    utils.maybe_initialize_jax_distributed_system = lambda *_, **__: None
    for file in files:
        spec = json.loads(file.read_bytes())
        show_devices(spec["gpus"], spec["local_devices"])
        if spec["gpu_type"] != "cpu":
            nodes = max(1, spec["gpus"] // spec["gpus_per_node"])
            utils.get_num_slices = lambda *_, nodes=nodes, **__: nodes
        values: dict[str, Any] = {}
        for begin, arguments in spec["phases"].items():
            made = module.initialize(["train", str(config), *arguments])
            keys = configuration.values_of(module.config if made is None else made)
            values |= {f"{begin}{key}": value for key, value in keys.items()}
        final.write_flat(values, seen.versions(configuration.PACKAGES), file.parent)


def show_devices(number: int, local: int) -> None:
    """Let JAX show so many devices, of which this process has `local`."""
    jax: Any = importlib.import_module("jax")
    devices = jax.devices()[:1] * number
    jax.devices = lambda *_, **__: devices
    jax.local_device_count = lambda *_, **__: local


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
