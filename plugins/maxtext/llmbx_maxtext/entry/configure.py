"""The program that builds MaxText's final configuration, without a GPU and without training.

It is started as `python code/configure.py KEY=VALUE …` with MaxText's arguments, in a folder with `spec.json`. The host
has as many forced devices as the run has GPUs; as on GPUs, the devices of a node are a slice.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from llmbx.entry import rank
from llmbx_maxtext.entry import configuration


def main(arguments: Sequence[str]) -> None:
    """Write the configuration of a run with these arguments, without joining other ranks."""
    spec, folder = rank.begin()
    program = spec["program"]
    package = importlib.import_module(program["module"].split(".")[0])
    utils = importlib.import_module(f"{package.__name__}.utils.max_utils")
    utils.maybe_initialize_jax_distributed_system = lambda *_, **__: None  # type: ignore[attr-defined]
    if spec["gpu_type"] != "cpu":
        utils.get_num_slices = lambda *_, **__: max(1, spec["gpus"] // spec["gpus_per_node"])  # type: ignore[attr-defined]
    module = importlib.import_module(configuration.module_of(program))
    config = Path(next(iter(package.__path__)), program["config"])
    configuration.write(module.initialize([program["module"], str(config), *arguments]), folder)


if __name__ == "__main__":
    main(sys.argv[1:])
