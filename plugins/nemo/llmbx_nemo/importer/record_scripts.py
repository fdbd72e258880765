"""Call the performance configurations of Megatron-Bridge 0.5 (`scripts/performance`) without its dependencies.

Run as a program of its own, as `record.py`: `python -I -S record_scripts.py TREE`, TREE being the folder that holds
`megatron/` in a checkout. A configuration is a constant, MODEL_PRETRAIN_CONFIG_GPU_DTYPE_VARIANT; the function of its
model and GPU type turns it into a `ConfigContainer`, and a plugin of the launch sets its environment.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from llmbx_nemo.importer import record

SCRIPTS = ("configs", "utils", "perf_plugins")
"""Modules of upstream's scripts that are executed, beside the recipes of the package."""

NAME = re.compile(
    r"(?P<model>[A-Z]\w{0,60})_PRETRAIN_CONFIG_(?P<gpu>[A-Z]{1,6}\d{1,6})_"
    r"(?P<dtype>BF16|NVFP4|FP8_[A-Z]{1,6})(?:_(?P<version>V\d{1,3}))?(?:_(?P<rest>\w{1,60}))?"
)
DTYPES = {"bf16": "bf16", "nvfp4": "nvfp4", "fp8_cs": "fp8cs", "fp8_mx": "fp8mx"}
"""The dtypes of the constants, as the functions of later releases call them."""


class Executor:
    """A stand-in for the executor of NeMo-Run: it keeps its arguments."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Script:
    """A stand-in for the task of NeMo-Run."""

    def __init__(self) -> None:
        self.args: list[str] = []


class Plugin:
    """A stand-in for the base class of NeMo-Run's plugins."""


def install_nemo_run() -> None:
    """Replace what upstream's scripts use of NeMo-Run as types and texts."""
    module: Any = importlib.import_module("nemo_run")
    module.SlurmExecutor, module.Script, module.Plugin = Executor, Script, Plugin
    config: Any = importlib.import_module("nemo_run.config")
    config.get_nemorun_home = str


def constants(family: types.ModuleType) -> Iterator[tuple[re.Match[str], Any]]:
    """Yield the pre-training configurations of a family with their names, later versions last."""
    named = [(NAME.fullmatch(name), value) for name, value in vars(family).items()]
    matches = [(match, value) for match, value in named if match and hasattr(value, "num_gpus")]
    yield from sorted(matches, key=lambda pair: (pair[0]["version"] or "", pair[0].string))


def environment(family: str, model: str, gpu: str, dtype: str, version: str) -> dict[str, str]:
    """Return the variables that the launch sets, as with `--offline`."""
    executors, plugins = map(importlib.import_module, ("utils.executors", "perf_plugins"))
    executor = executors.slurm_executor(gpu, "a", "p", "/log", 1, 8, offline=True)
    plugin = plugins.PerfEnvPlugin(
        model_family_name=family,
        model_recipe_name=model,
        gpu=gpu,
        compute_dtype=dtype,
        train_task="pretrain",
        config_variant=version,
    )
    plugin.setup(Script(), executor)
    return {name: value for name, value in executor.env_vars.items() if isinstance(value, str)}


def row_of(family: types.ModuleType, name: re.Match[str], constant: Any) -> dict[str, Any]:
    """Return what a configuration sets; `error` if its function cannot be called."""
    model, gpu, dtype = name["model"].lower(), name["gpu"].lower(), name["dtype"].lower()
    version = (name["version"] or "v1").lower()
    variant = "_".join(filter(None, (DTYPES.get(dtype, dtype), (name["rest"] or "").lower())))
    named = {"model": model, "gpus": constant.num_gpus, "gpu_type": gpu, "variant": variant}
    row: dict[str, Any] = {"function": name.string, "module": family.__name__, **named}
    if variant not in DTYPES.values():
        return row
    try:
        function = getattr(family, f"{model}_pretrain_config_{gpu}")
        record.LACKING.clear()
        configuration = function(precision=dtype, mock=True, config_variant=version)
        values = record.values(configuration)
        values["env"] = environment(family.__name__.rpartition(".")[2], model, gpu, dtype, version)
    except Exception as error:
        return row | {"error": f"{type(error).__name__}: {error}"}
    return row | values


def rows(scripts: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of all families; of two versions for one number of GPUs, the later."""
    for path in sorted((scripts / "configs").glob("*/__init__.py")):
        family = importlib.import_module(f"configs.{path.parent.name}")
        latest = {}
        for name, constant in constants(family):
            key = (name["model"], name["gpu"], name["dtype"], name["rest"], constant.num_gpus)
            latest[key] = (name, constant)
        for name, constant in latest.values():
            yield row_of(family, name, constant)


def main() -> None:
    """Print a JSON array."""
    tree = Path(sys.argv[1]).resolve()
    scripts = tree.parent / "scripts" / "performance"
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, record.Finder(tree, dict.fromkeys(SCRIPTS, scripts)))
    install_nemo_run()
    json.dump(list(rows(scripts)), sys.stdout)


if __name__ == "__main__":
    main()
