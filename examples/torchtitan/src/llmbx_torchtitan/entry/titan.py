"""torchtitan's own Trainer with its Llama 3 debug model, on made-up tokens."""

import os
from dataclasses import dataclass

import torch
from torch.distributed.fsdp import FSDPModule
from torch.nn.attention import SDPBackend
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.llama3 import config_registry
from torchtitan.tools.logging import init_logger, logger
from torchtitan.trainer import Trainer

from llmbx.entry import operations, rank, seen

spec, folder = rank.begin()
this, model = rank.this(), spec["model"]


class NoText(BaseTokenizer):
    """The samples are tokens already: there is nothing to encode."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config, **options):
        super().__init__()

    def encode(self, *arguments, **options):
        raise TypeError("the samples are tokens already")

    decode = encode

    def get_vocab_size(self):
        return model["vocab_size"]


class Tokens(BaseDataLoader):
    """The same random tokens in each step: the loss falls as the model learns them by heart."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        pass

    def __init__(self, config, *, dp_rank, seq_len, local_batch_size, **options):
        draw = torch.Generator().manual_seed(dp_rank)
        self.tokens = torch.randint(model["vocab_size"], (local_batch_size, seq_len + 1), generator=draw)

    def __iter__(self):
        while True:
            yield {"input": self.tokens[:, :-1]}, self.tokens[:, 1:]

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class CountedTrainer(Trainer):
    """torchtitan's Trainer; the operations of the last step are counted if `llmbx plugins check` asks for it."""

    def train_step(self, batches):
        if self.step < self.config.training.steps:
            super().train_step(batches)
            return
        with operations.of_torch(folder, self.config.training.global_batch_size // this.world):
            super().train_step(batches)


def configured():
    """torchtitan's configuration of its debug model, changed where a CPU or this run needs it."""
    config = config_registry.llama3_debugmodel()
    built = config.model_spec.model
    asked = tuple(model[name] for name in ("layers", "hidden_size", "heads", "vocab_size"))
    if asked != (len(built.layers), built.dim, built.layers[0].attention.n_heads, built.vocab_size):
        rank.stop("the model is not torchtitan's debug model: use --size mini without changes of its shape")
    for layer in built.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()  # FlexAttention is slow without a compiler
    config.training.steps = spec["steps"]
    config.training.seq_len = model["sequence_length"]
    config.training.local_batch_size = spec["micro_batch_size"]
    config.training.global_batch_size = spec["global_batch_size"]
    config.training.mixed_precision_param = "float32"
    config.training.disable_cuda_graphs = True
    config.parallelism.spmd_backend = "partial_dtensor"  # the default backend shards no model without a sharded mesh
    config.activation_checkpoint = None
    config.optimizer.param_groups[0].optimizer_kwargs["lr"] = spec["settings"]["lr"]
    config.dataloader, config.tokenizer = Tokens.Config(), NoText.Config()
    config.metrics.disable_color_printing = True
    config.dump_folder = str(folder / "torchtitan")
    return config


def main():
    """Train this rank."""
    os.environ.update(
        RANK=str(this.number), WORLD_SIZE=str(this.world), LOCAL_RANK=str(this.local), MASTER_ADDR=this.address,
        MASTER_PORT=str(this.port),
    )  # fmt: skip
    init_logger()
    if this.first:
        seen.write(folder, ("torchtitan", "torch"))
    else:
        logger.setLevel("WARNING")  # all ranks print the same steps
    trainer = CountedTrainer(configured())
    for module in trainer.model_parts[0].modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # gloo cannot scale a sum
        if isinstance(module, ScaledDotProductAttention) and operations.wanted():
            module.sdpa_backends = [SDPBackend.MATH]  # the counter does not know the fused kernel of a CPU
    trainer.train()
    trainer.close()
    torch.distributed.destroy_process_group()
