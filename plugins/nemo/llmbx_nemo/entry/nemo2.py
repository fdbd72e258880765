"""The NeMo 2 driver, for the recipes whose image is one of the nemo:25.0x containers.

Builds what the recipes' own scripts build (model, data, strategy, precision, callbacks) from the same settings as the
Megatron-Bridge driver, and calls `llm.pretrain`. Written against the sources of NeMo 2.2 and 2.3; llmbx's tests have no
GPU and no such image, so it has never been run by them.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
from pathlib import Path
from typing import Any

from llmbx_nemo.entry import execution
from llmbx_nemo.entry.execution import Fields, Host, Spec, setting
from llmbx_nemo.entry.settings import CHECKPOINTS, profiled_ranks, settings

PRECISIONS = {
    "bf16": "bf16_mixed",
    "cs": "bf16_with_fp8_current_scaling_mixed",
    "mx": "bf16_with_mxfp8_mixed",
    "delayed": "bf16_with_fp8_mixed",
}
"""NeMo's functions for a dtype or FP8 recipe, in `nemo.collections.llm.recipes.precision.mixed_precision`."""


def run(spec: Spec, run_dir: Path) -> list[str]:
    """Train. Returns why it cannot be done, one line each, or ends the process when it was."""
    # Lightning takes ranks from the environment only from torchrun, so it is told that torchrun was here
    os.environ.setdefault("TORCHELASTIC_RUN_ID", "llmbx")
    import torch

    host = Host(cuda=torch.cuda.is_available(), te=torch.cuda.is_available(), world=int(os.environ["WORLD_SIZE"]))
    problems = execution.problems(spec, host)
    if not host.cuda:
        problems.append("NeMo 2 needs CUDA, which is not here")
    if spec["dtype"] == "fp32":
        problems.append("the NeMo 2 recipes train in bf16 and fp8")
    if spec["profile"] and spec["profile"]["tool"] != "nsys":
        problems.append(f"the NeMo 2 recipes are profiled with nsys, not {spec['profile']['tool']}")
    if problems:
        return problems
    os.chdir(run_dir)
    pretrain(spec, host)
    return []


def pretrain(spec: Spec, host: Host) -> None:
    """Put the parts together and train; resuming runs exactly one further step."""
    from nemo import lightning as nl
    from nemo.collections import llm

    wanted = spec["checkpoint"]
    steps = 1 if wanted["load"] else spec["steps"]
    sections = settings(spec, host)
    tokens = tokenizer(spec)
    model = language_model(spec, sections["model"] or {}, tokens)
    data = llm.MockDataModule(
        seq_length=spec["model"]["sequence_length"],
        global_batch_size=spec["global_batch_size"],
        micro_batch_size=spec["micro_batch_size"],
        num_train_samples=steps * spec["global_batch_size"],
        tokenizer=tokens,
    )
    trainer = nl.Trainer(
        accelerator="gpu",
        devices=min(spec["gpus"], spec["gpus_per_node"]),
        num_nodes=-(-spec["gpus"] // spec["gpus_per_node"]),
        max_steps=steps,
        val_check_interval=steps,
        limit_val_batches=0,
        log_every_n_steps=1,
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=bool(wanted["save"]),
        strategy=strategy(spec, sections["model"] or {}, sections["ddp"] or {}),
        plugins=precision(spec),
        callbacks=callbacks(spec, host, model, data),
    )
    resume = nl.AutoResume(restore_config=nl.RestoreConfig(path=wanted["load"])) if wanted["load"] else None
    llm.pretrain(
        model=model,
        data=data,
        trainer=trainer,
        log=log(steps, bool(wanted["save"])),
        optim=optimizer(sections["optimizer"] or {}, sections["scheduler"] or {}, steps),
        resume=resume,
    )


def tokenizer(spec: Spec) -> Any:
    """No tokenizer but its vocabulary, or the model's own from the hub."""
    from nemo.collections.nlp.modules.common.tokenizer_utils import get_nmt_tokenizer

    if setting(spec, "tokenizer", "null") == "hub":
        return get_nmt_tokenizer(library="huggingface", model_name=spec["gated_tokenizer"], use_fast=True)
    return get_nmt_tokenizer(library="null", model_name="NullTokenizer", vocab_size=spec["model"]["vocab_size"])


def language_model(spec: Spec, fields: Fields, tokens: Any) -> Any:
    """The model with NeMo's configuration class for its family: mixture of experts, Maverick, or Llama."""
    import torch.nn.functional as functional
    from nemo.collections import llm
    from nemo.collections.llm.gpt.model import llama, mixtral
    from nemo.collections.llm.gpt.model.base import GPTModel

    if "no_rope_freq" in fields:
        model, kind = llm.LlamaModel, llama.Llama4Experts128Config
    elif "num_moe_experts" in fields:
        model, kind = GPTModel, mixtral.MixtralConfig8x7B
    else:
        model, kind = llm.LlamaModel, llama.Llama31Config
    own = {
        "activation_func": getattr(functional, fields["activation_func"]),
        "enable_cuda_graph": spec["cuda_graphs"],
        "nope_layer_interval": spec["architecture"].get("no_rope_every"),
        "scale_factor": fields.get("rope_scaling_factor"),
    }
    return model(config=known(kind, {**fields, **own}), tokenizer=tokens)


SPLIT = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split", "sequence_parallel")
"""Fields that belong to the parallelism and are no degree."""


def parallel(fields: Fields) -> Fields:
    """Those of `fields` that the strategy takes. It writes them into the model's configuration when it is connected."""
    return {name: value for name, value in fields.items() if name.endswith("_parallel_size") or name in SPLIT}


def known(kind: Any, fields: Fields) -> Any:
    """A configuration of `kind` from those of `fields` that it has (what it lacks are Megatron-Bridge's own).

    Without parallelism: the configuration refuses pipeline stages that it is made with, for want of their dtype.
    """
    names = {field.name for field in dataclasses.fields(kind)}
    left_out = {"no_rope_freq", "pipeline_dtype", *parallel(fields)}
    return kind(**{name: value for name, value in fields.items() if name in names - left_out and value is not None})


def strategy(spec: Spec, fields: Fields, ddp: Fields) -> Any:
    """Megatron's parallelism as Lightning's strategy."""
    import torch
    from megatron.core.distributed import DistributedDataParallelConfig
    from nemo import lightning as nl

    names = {field.name for field in dataclasses.fields(DistributedDataParallelConfig)} - {"use_megatron_fsdp"}
    return nl.MegatronStrategy(
        **parallel(fields),
        pipeline_dtype=torch.bfloat16,
        gradient_as_bucket_view=True,
        ckpt_async_save=False,
        ckpt_parallel_load=True,
        use_te_rng_tracker=spec["cuda_graphs"],
        ddp=DistributedDataParallelConfig(**{name: value for name, value in ddp.items() if name in names}),
        **({"fsdp": "megatron"} if spec["parallelism"]["fsdp"] else {}),
    )


def precision(spec: Spec) -> Any:
    """Mixed precision by NeMo's own recipe, gradients reduced in BF16 as the performance scripts do."""
    import fiddle
    from nemo.collections.llm.recipes.precision import mixed_precision

    name = PRECISIONS[setting(spec, "fp8_recipe", "delayed") if spec["dtype"] == "fp8" else "bf16"]
    config = getattr(mixed_precision, name)()
    config.grad_reduce_in_fp32 = False
    if name == PRECISIONS["cs"]:
        config.first_last_layers_bf16 = False
    return fiddle.build(config)


def callbacks(spec: Spec, host: Host, model: Any, data: Any) -> list[Any]:
    """Step timing, FLOPs, overlap, token drop, garbage collection in step, and nsys's bracket."""
    from nemo.lightning.pytorch.callbacks import GarbageCollectionCallback, NsysCallback
    from nemo.lightning.pytorch.callbacks.flops_callback import FLOPsMeasurementCallback
    from nemo.lightning.pytorch.callbacks.megatron_comm_overlap import MegatronCommOverlapCallback
    from nemo.lightning.pytorch.callbacks.moe_token_drop import MegatronTokenDropCallback
    from nemo.utils.exp_manager import TimingCallback

    overlap = execution.overlap(spec, host) or {}
    family = "mixtral" if spec["model"].get("experts") and not spec["architecture"].get("no_rope_every") else "llama"
    name = {"mixtral": "mixtral", "llama": "llama4" if spec["model"].get("experts") else "llama3"}[family]
    found = [
        TimingCallback(),
        GarbageCollectionCallback(100, 100),
        MegatronCommOverlapCallback(**overlap, tp_comm_overlap_cfg=tuned_buffers(spec)),
        FLOPsMeasurementCallback(model.config, data, name),
    ]
    if spec["model"].get("experts") and setting(spec, "moe_token_drop", False):
        found.append(MegatronTokenDropCallback())
    if profile := spec["profile"]:
        found.append(NsysCallback(profile["start"], profile["stop"], profiled_ranks(spec, host)))
    return found


def tuned_buffers(spec: Spec) -> Any:
    """NeMo's tuned buffers for tensor-parallel overlap of this very shape; None where it has none."""
    from nemo.collections.llm.recipes.tp_overlap_configs import userbuffers

    return next(
        (getattr(userbuffers, name) for name in execution.userbuffers(spec) if hasattr(userbuffers, name)), None
    )


def optimizer(fields: Fields, schedule: Fields, steps: int) -> Any:
    """Distributed Adam with a cosine schedule."""
    from megatron.core.optimizer import OptimizerConfig
    from nemo.lightning.pytorch.optim import CosineAnnealingScheduler, MegatronOptimizerModule

    names = {field.name for field in dataclasses.fields(OptimizerConfig)}
    return MegatronOptimizerModule(
        config=OptimizerConfig(**{name: value for name, value in fields.items() if name in names}),
        lr_scheduler=CosineAnnealingScheduler(
            max_steps=steps, warmup_steps=schedule["lr_warmup_iters"], constant_steps=0, min_lr=fields["min_lr"]
        ),
    )


def log(steps: int, save: bool) -> Any:
    """NeMo's logger in the run folder, with one checkpoint after the last step if it is wanted."""
    from nemo import lightning as nl

    checkpoint = None
    if save:
        checkpoint = nl.ModelCheckpoint(
            dirpath=CHECKPOINTS, monitor=None, save_top_k=1, save_last=False, every_n_train_steps=steps
        )
    folder = "log_dir" if "log_dir" in inspect.signature(nl.NeMoLogger).parameters else "dir"
    return nl.NeMoLogger(**{folder: "nemo_experiments"}, name="default", use_datetime_version=False, ckpt=checkpoint)
