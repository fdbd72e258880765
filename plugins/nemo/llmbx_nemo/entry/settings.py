"""Turn a specification into the whole configuration as plain values, without importing the framework.

The sections are those of Megatron-Bridge's `ConfigContainer`, with the names of version 0.3; `config.py` converts them
to the classes of the installed version. Steps, samples and ranks are counted from zero.
"""

from __future__ import annotations

import json
import re
from typing import Any

from llmbx_nemo.entry import execution, hub, shapes
from llmbx_nemo.entry.execution import Fields, Host, Spec, setting

CHECKPOINTS = "checkpoints"
"""Folder in which a run saves checkpoints, relative to the run folder."""

CONFIG_FILE = "configs/ConfigContainer.yaml"
"""File to which Megatron-Bridge writes its configuration, relative to the run folder."""

WORDS = re.compile(r"\[[A-Za-z_]\w*(,[A-Za-z_]\w*)*\]", re.ASCII)
"""A list of words in an override, as upstream's options have it."""


def settings(spec: Spec, host: Host, saved_step: int | None = None) -> dict[str, Fields | None]:
    """Return every section of the configuration. `saved_step` is the step of the checkpoint to resume from, if any."""
    steps = spec["steps"] if saved_step is None else saved_step + 1
    sections = {
        "model": model(spec, host),
        "train": train(spec, host, steps),
        "optimizer": optimizer(spec, host, steps),
        "scheduler": scheduler(steps, spec["mini"]),
        "ddp": execution.ddp(spec, host),
        "dataset": dataset(spec, host),
        "tokenizer": tokenizer(spec),
        "checkpoint": checkpoint(spec, steps, saved_step),
        "logger": logger(),
        "rng": {"seed": int(setting(spec, "seed", 1234)), "te_rng_tracker": spec["cuda_graphs"]},
        "dist": dist(spec, host),
        "rerun_state_machine": {"check_for_nan_in_loss": execution.checks_nan(spec)},
        "profiling": profiling(spec, host),
        "comm_overlap": execution.overlap(spec, host),
        "mixed_precision": execution.precision(spec, host),
    }
    return override(sections, str(setting(spec, "overrides", "")))


def override(sections: dict[str, Fields | None], overrides: str) -> dict[str, Fields | None]:
    """Return `sections` with the user's overrides applied.

    `overrides` are `section.field=value` with Megatron-Bridge's names, separated by spaces; a value is JSON, a list of
    words (`[mlp,moe]`) or text.
    """
    changed = dict(sections)
    for word in overrides.split():
        name, _, text = word.partition("=")
        section, _, field = name.partition(".")
        changed[section] = {**(changed.get(section) or {}), field: value_of(text)}
    return changed


def value_of(text: str) -> Any:
    """Return the value of an override."""
    try:
        return json.loads(text)
    except ValueError:
        return text[1:-1].split(",") if WORDS.fullmatch(text) else text


def model(spec: Spec, host: Host) -> Fields:
    """Return the model provider's fields: architecture, sizes and execution.

    With Transformer Engine, a model of the hub keeps the kernels that Megatron-Bridge chooses for it.
    """
    if "hub" in spec["architecture"]:
        kernels = {} if host.te else execution.kernels(spec, host)
        own = {**execution.parallel(spec, host), **kernels, **execution.graphs(spec), **execution.memory(spec)}
        return {**hub.model(spec), **own}
    return {
        **shapes.architecture(spec["architecture"], spec["model"]),
        **execution.parallel(spec, host),
        **execution.kernels(spec, host),
        **execution.graphs(spec),
        **execution.memory(spec),
    }


def train(spec: Spec, host: Host, steps: int) -> Fields:
    """Return steps and batch sizes, without evaluation. On CUDA, all ranks collect garbage at the same steps."""
    return {
        "train_iters": steps,
        "micro_batch_size": spec["micro_batch_size"],
        "global_batch_size": spec["global_batch_size"],
        "eval_iters": 0,
        "eval_interval": steps,
        "manual_gc": host.cuda,
        "manual_gc_interval": 100 if host.cuda else 0,
    }


def optimizer(spec: Spec, host: Host, steps: int) -> Fields:
    """Return the fields of Adam.

    With Transformer Engine and without FSDP, BF16 runs store its state in the precision of the recipes.
    """
    rate = float(setting(spec, "lr", 3e-4))
    precise = host.te and spec["dtype"] == "bf16" and not spec["parallelism"]["fsdp"]
    return {
        "optimizer": "adam",
        "lr": rate,
        "min_lr": rate / 10,
        "weight_decay": 0.1,
        "adam_beta1": 0.9,
        "adam_beta2": 0.95,
        "adam_eps": 1e-8,
        "clip_grad": 1.0,
        "bf16": spec["dtype"] != "fp32",
        "use_distributed_optimizer": execution.distributed_optimizer(host),
        "use_precision_aware_optimizer": precise,
    }


def scheduler(steps: int, mini: bool) -> Fields:
    """Return a cosine decay over the run after a short warm-up. It overrides the values in a checkpoint."""
    return {
        "lr_decay_style": "cosine",
        "lr_decay_iters": steps,
        "lr_warmup_iters": min(5 if mini else 10, steps - 1),
        "start_weight_decay": 0.1,
        "end_weight_decay": 0.1,
        "weight_decay_incr_style": "constant",
        "override_opt_param_scheduler": True,
    }


def dataset(spec: Spec, host: Host) -> Fields:
    """Return the fields of the mock dataset: tokens are generated, always the same ones, and not read from disk."""
    return {
        "random_seed": int(setting(spec, "seed", 1234)),
        "sequence_length": spec["model"]["sequence_length"],
        "blend": None,
        "blend_per_split": None,
        "split": "1,1,1",
        "reset_attention_mask": False,
        "reset_position_ids": False,
        "eod_mask_loss": False,
        # attention kernels on a GPU need no explicit causal mask; its S x S values would be created for every sample
        "create_attention_mask": not host.cuda,
        "num_dataset_builder_threads": 1,
        "dataloader_type": "single",
        # the CPU shims work only in the training thread, so the data is generated there
        "num_workers": 2 if host.cuda else 0,
        "pin_memory": host.cuda,
    }


def tokenizer(spec: Spec) -> Fields:
    """Return a null tokenizer with the model's vocabulary size.

    With the setting `tokenizer=hub` it is the model's own tokenizer, from the Hugging Face hub or its cache.
    """
    if setting(spec, "tokenizer", "null") == "hub":
        return {"tokenizer_type": "HuggingFaceTokenizer", "tokenizer_model": spec["gated_tokenizer"]}
    return {"tokenizer_type": "NullTokenizer", "vocab_size": spec["model"]["vocab_size"]}


def checkpoint(spec: Spec, steps: int, saved_step: int | None) -> Fields:
    """Return the checkpoint fields: save once, after the last step; fail if the checkpoint to load is missing."""
    checkpoint_spec = spec["checkpoint"]
    return {
        "save": CHECKPOINTS if checkpoint_spec["save"] else None,
        "save_interval": steps if checkpoint_spec["save"] else None,
        "load": checkpoint_spec["load"] if saved_step is not None else None,
        "exit_on_missing_checkpoint": True,
        "ckpt_format": "fsdp_dtensor" if spec["parallelism"]["fsdp"] else "torch_dist",
        "async_save": False,
        "fully_parallel_save": True,
    }


def logger() -> Fields:
    """Return the logger fields: one line per step with throughput, no TensorBoard, the configuration as a file."""
    return {
        "log_interval": 1,
        "log_throughput": True,
        "log_timers_to_tensorboard": False,
        "tensorboard_dir": None,
        "save_config_filepath": CONFIG_FILE,
    }


def dist(spec: Spec, host: Host) -> Fields:
    """Return the fields of the process groups: NCCL with CUDA, else gloo."""
    return {
        "distributed_backend": "nccl" if host.cuda else "gloo",
        "distributed_timeout_minutes": int(setting(spec, "distributed_timeout_minutes", 10)),
        "use_megatron_fsdp": bool(spec["parallelism"]["fsdp"]),
    }


def profiling(spec: Spec, host: Host) -> Fields:
    """Return the fields of Megatron-Bridge's nsys support: steps [start, stop) and ranks.

    Empty without CUDA, because Megatron-Bridge calls CUDA's profiler functions.
    """
    profile = spec["profile"]
    if profile is None or profile["tool"] != "nsys" or not host.cuda:
        return {}
    return {
        "use_nsys_profiler": True,
        "profile_step_start": profile["start"],
        "profile_step_end": profile["stop"],
        "profile_ranks": profiled_ranks(spec, host),
    }


def profiled_ranks(spec: Spec, host: Host) -> list[int]:
    """Return the ranks to profile."""
    return ranks(spec["profile"]["ranks"], host.world, spec["parallelism"]["pp"])


def ranks(text: str, world: int, stages: int = 1) -> list[int]:
    """Return the ranks that `text` selects: "all", or numbers, ranges ("0-7"), first, mid and last, by commas.

    first, mid and last are the first rank of the first, the middle and the last pipeline stage.
    """
    words = {"first": 0, "mid": stages // 2 * (world // stages), "last": (stages - 1) * (world // stages)}
    named: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if first == "all":
            named.update(range(world))
        elif first in words:
            named.add(words[first])
        else:
            named.update(range(int(first), int(last if dash else first) + 1))
    return sorted(rank for rank in named if rank < world)
