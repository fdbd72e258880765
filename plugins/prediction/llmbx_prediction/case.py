"""One configuration whose performance is predicted, or was published."""

from __future__ import annotations

from typing import Literal

from llmbx.api import Value

from .cost.model import Model

ENGINES = {
    "megatron-bridge": "megatron",
    "nemo2": "megatron",
    "megatron-lm": "megatron",
    "maxtext": "jax",
    "paxml": "jax",
    "torchtitan": "pytorch",
    "fsdp": "pytorch",
    "automodel": "pytorch",
    "llm-foundry": "pytorch",
}
"""The code that a stack is built on, with its kernels and schedules."""
BARE_STACK = "megatron-core"
"""Megatron-Core without Transformer Engine, whose kernels are those of torch: no figure of it is published."""
OTHER_STACK = "other"
"""A stack of which nothing is known."""
Recompute = Literal["none", "selective", "full"]
Task = Literal["pretrain", "sft", "lora"]


class Case(Value, frozen=True, kw_only=True):
    """A model on GPUs with its parallelism. Lengths are in tokens, batch sizes in samples, `when` in years.

    `dtype` is that of the matrix products: bf16, fp8 (one scale per tensor), mxfp8, nvfp4. `recomputed` is the share of
    the layers that are recomputed as a whole, if `recompute` is not full. `fsdp` says whether parameters are sharded
    over data parallelism, `sequence_parallel` whether tensor parallelism also shards what is outside of the matrix
    products. `chosen` says whether the layout was chosen for this model and GPU type, in a recipe or for a published
    figure, `token_drop` whether experts each process an equal share of the tokens and drop the rest. `stack`
    is the framework with its images, `when` its release date.
    """

    model: Model
    gpu_type: str
    gpus: int
    dtype: str
    gbs: int
    mbs: int = 1
    seq: int
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    vp: int = 1
    fsdp: bool = False
    sequence_parallel: bool = True
    recompute: Recompute = "none"
    recomputed: float = 0.0
    offload_layers: int = 0
    chosen: bool = True
    token_drop: bool = False
    task: Task = "pretrain"
    stack: str = "megatron-bridge"
    when: float = 2026.6
    release: str = ""

    @property
    def layout(self) -> tuple[object, ...]:
        """The degrees of parallelism, the micro-batch, and what is sharded, recomputed or offloaded."""
        return (self.tp, self.pp, self.cp, self.ep, self.etp, self.vp, self.mbs, self.fsdp, self.recompute,
                self.recomputed, self.offload_layers)  # fmt: skip

    @property
    def degrees(self) -> tuple[object, ...]:
        """The layout without what is recomputed or offloaded, which no page of figures prints."""
        return self.layout[:8]

    @property
    def engine(self) -> str:
        """The code below the stack; its own name if it is alone."""
        return ENGINES.get(self.stack, self.stack)

    @property
    def dp(self) -> float:
        """Data parallelism."""
        return max(1.0, self.gpus / (self.tp * self.pp * self.cp))

    @property
    def accumulation(self) -> float:
        """Micro-batches per step of one replica."""
        return max(1.0, self.gbs / (self.mbs * self.dp))

    @property
    def tokens_per_gpu(self) -> float:
        """Tokens per step and GPU."""
        return self.gbs * self.seq / self.gpus
