"""The Megatron-Bridge driver: builds the configuration and calls `pretrain`."""

from __future__ import annotations

import gc
import logging
import os
import warnings
from pathlib import Path
from typing import Any

from llmbx.entry import final, seen
from llmbx_nemo.entry import checkpoints, config, execution, patches, performance, published, stubs
from llmbx_nemo.entry.execution import Host, Spec
from llmbx_nemo.entry.settings import CHECKPOINTS, CONFIG_FILE, settings

HUB = "hub"
"""Folder with the configurations of models that the recipe reads, in the layout of huggingface_hub's cache."""


def run(spec: Spec, run_dir: Path) -> list[str]:
    """Train. Returns the problems that prevent it, one line each; an empty list after a completed run."""
    folder = spec["checkpoint"]["load"]
    saved_step = None if folder is None else checkpoints.saved_step(Path(folder))
    if folder is not None and saved_step is None:
        return [checkpoints.unusable(Path(folder))]
    use_hub(run_dir)
    host = prepare()
    problems = execution.problems(spec, host)
    if problems:
        return problems
    try:
        finished = container(spec, host, saved_step)
    except config.ConfigError as error:
        return [str(error)]
    os.chdir(run_dir)
    Path(CONFIG_FILE).parent.mkdir(exist_ok=True)
    pretrain(spec, host, finished)
    return []


def container(spec: Spec, host: Host, saved_step: int | None = None) -> Any:
    """Return the `ConfigContainer` of a run: a published one, or llmbx's own.

    Raises `ConfigError` if the installed Megatron-Bridge does not support a setting.
    """
    if spec.get("published"):
        return (performance if "function" in spec["published"] else published).container(spec, host)
    return config.container(settings(spec, host, saved_step), execution.userbuffers(spec))


def use_hub(folder: Path) -> None:
    """Make `hub/` in `folder`, if it exists, the cache of the Hugging Face libraries. Call it before their import."""
    if (folder / HUB).is_dir():
        os.environ["HF_HUB_CACHE"] = str((folder / HUB).resolve())


def prepare() -> Host:
    """Import Megatron: with the CPU shims if there is no CUDA, and with stubs for packages that are not installed.

    On a GPU without Transformer Engine the stubs are used, but not the CPU shims.
    """
    warnings.filterwarnings("ignore")
    gc.disable()
    import torch

    cuda = torch.cuda.is_available()
    if not cuda:
        from llmbx_nemo.entry import cpu_shims

        cpu_shims.install()
    # 0.6 logs a traceback for every optional name that it does not find. A level would be overwritten by the import.
    logging.getLogger("megatron.bridge.utils.import_utils").addFilter(lambda record: record.levelno >= logging.WARNING)
    with stubs.absent_packages() as absent:
        import megatron.bridge.training.gpt_step  # noqa: F401
        import megatron.bridge.training.pretrain  # noqa: F401
    patches.install()
    if not cuda:
        cpu_shims.patch_megatron()
    gc.enable()
    te = cuda and "transformer_engine" not in absent
    return Host(cuda=cuda, te=te, world=int(os.environ["WORLD_SIZE"]))


def pretrain(spec: Spec, host: Host, finished: Any) -> None:
    """Train with the final configuration. Rank 0 writes it to `configs/final.json`."""
    from megatron.bridge.training import pretrain as bridge
    from megatron.bridge.training.gpt_step import forward_step

    from llmbx_nemo.entry import callbacks, loop, verified

    train = bridge._pretrain

    def recorded(*args: Any, **kwargs: Any) -> Any:
        # the configuration is final here: precision, overlap and parallelism have been applied
        state = kwargs["state"] if "state" in kwargs else args[0]
        if os.environ["RANK"] == "0":
            final.write(state.cfg, seen.versions(execution.PACKAGES))
        return train(*args, **kwargs)

    bridge._pretrain = recorded
    clock = patches.clock(Path())
    passes = verified.of_run(spec, host, Path())
    steps = verified.see_bridge(passes) if passes else None
    watchers = callbacks.chosen(spec, host, clock, steps, saves_again=hasattr(bridge, "save_checkpoint"))
    if loop.has_callbacks(bridge.pretrain):
        bridge.pretrain(finished, forward_step, callbacks=watchers)
    else:
        loop.attach(watchers)
        bridge.pretrain(finished, forward_step)
    if spec["checkpoint"]["save"] and os.environ["RANK"] == "0":
        checkpoints.name_weights(Path(CHECKPOINTS))
