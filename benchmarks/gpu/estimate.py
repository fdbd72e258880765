"""How much memory and time a training step on one GPU should take, before it is run: plain arithmetic.

Memory is in bytes, of the two frameworks as the recipes "one-gpu" run them; times assume a share of the peak that has
to be measured. What is left out (CUDA's context, workspaces, gaps between blocks) is why the rows stay well below what
the GPU has.
"""

from __future__ import annotations

from llmbx.model import ModelShape, RunSpec, Value
from llmbx.model.flops import Flops

GIB = 2**30

ASSUMED_MFU = 0.5
"""The share of the peak that times are estimated with: an assumption, so that an hour can be planned."""

START_S = {"nemo": 40, "maxtext": 60}
"""Seconds until the first step is done (imports, compilation): an assumption, too."""


class Memory(Value, frozen=True):
    """What fills a GPU, in bytes. `update` is what the optimizer's step needs instead of activations and logits."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    update: float

    @property
    def peak(self) -> float:
        """The most that is there at once: in the backward pass, or while the weights are updated."""
        fixed = self.weights + self.gradients + self.optimizer
        return fixed + max(self.activations + self.logits, self.update)


def parameters(model: ModelShape) -> int:
    """All weights of a model with RMSNorm, gated MLPs, and input and output embeddings of their own."""
    h, per_head = model.hidden_size, model.hidden_size // model.heads
    attention = 2 * h * h + 2 * h * model.query_groups * per_head
    mixed = 0 if model.experts is None else model.layers // (model.moe_layer_every or 1)
    experts = (model.experts or 0) * 3 * h * (model.moe_ffn_hidden_size or model.ffn_hidden_size)
    mixture = experts + 3 * h * (model.shared_ffn_hidden_size or 0) + h * (model.experts or 0)
    dense = (model.layers - mixed) * 3 * h * model.ffn_hidden_size
    return model.layers * (attention + 2 * h) + dense + mixed * mixture + 2 * h * model.vocab_size + h


def kept(model: ModelShape) -> float:
    """Elements that one token leaves in one layer for the backward pass, on average over the layers.

    Of the width h: both norms' input and output, the attention's output and its projection, queries before and after
    rotation; keys and values likewise, as groups. Of the width f of the MLP: both halves and their product. Expert
    layers have that for each expert of a token and the shared one, GELU one more, and their input and output sorted.
    """
    h, groups = model.hidden_size, model.query_groups / model.heads
    attention = h * (6 + 2 + 3 * groups)
    dense = 3 * model.ffn_hidden_size
    if model.experts is None:
        return attention + dense
    chosen, width = model.experts_per_token or 1, model.moe_ffn_hidden_size or model.ffn_hidden_size
    mixture = chosen * (4 * width + 3 * h) + 3 * (model.shared_ffn_hidden_size or 0)
    share = 1 / (model.moe_layer_every or 1)
    return attention + share * mixture + (1 - share) * dense


def memory(spec: RunSpec) -> Memory:
    """The memory of one rank that has the whole model."""
    return (_megatron if spec.plugin == "nemo" else _maxtext)(spec)


def _megatron(spec: RunSpec) -> Memory:
    """BF16 weights and gradients; FP32 master weights and Adam's two moments; FP32 gradients during the update.

    Logits: BF16, their FP32 copy that becomes the softmax, and the gradient in both.
    """
    count, tokens = parameters(spec.model), spec.micro_batch_size * spec.model.sequence_length
    kept_layers = spec.model.layers - spec.recompute_layers
    return Memory(
        weights=2.0 * count,
        gradients=2.0 * count,
        optimizer=12.0 * count,
        activations=2 * tokens * (kept_layers * kept(spec.model) + spec.recompute_layers * spec.model.hidden_size),
        logits=12.0 * tokens * spec.model.vocab_size,
        update=4.0 * count,
    )


def _maxtext(spec: RunSpec) -> Memory:
    """FP32 weights, gradients and Adam's two moments; matrix products in BF16, of which a copy of each weight.

    The remat policy of the recipe keeps every matrix product's output; logits are BF16 with an FP32 softmax.
    """
    count, tokens = parameters(spec.model), spec.micro_batch_size * spec.model.sequence_length
    return Memory(
        weights=6.0 * count,
        gradients=4.0 * count,
        optimizer=8.0 * count,
        activations=2 * tokens * spec.model.layers * kept(spec.model),
        logits=12.0 * tokens * spec.model.vocab_size,
        update=0.0,
    )


def seconds(spec: RunSpec, flops: Flops, peak_tflops: float, mfu: float = ASSUMED_MFU) -> float:
    """One step's time at `mfu` of the peak, FLOPs counted in full."""
    return spec.global_batch_size * flops.full / (mfu * peak_tflops * 1e12 * spec.gpus)
