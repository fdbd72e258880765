"""Shapes of models: their FLOPs and parameters by kind of layer."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

from llmbx.api import ModelShape, Term, UsageError, Value, convert_toml, did_you_mean, read_toml


class Model(Value, frozen=True, kw_only=True):
    """The shape of a model. Widths are in elements, `flops_per_token` in GFLOP (training, causal attention).

    The defaults of the latent attention and of Mamba-2 are the widths that the models of the table share.
    """

    name: str = ""
    layers: int
    hidden: int
    heads: int = 0
    groups: int = 0
    head_width: int | None = None
    vocab: int = 0
    ffn: int = 0
    gated: bool = True
    tied: bool = False
    experts: int = 0
    top_k: int = 0
    moe_ffn: int = 0
    shared_ffn: int = 0
    dense_layers: int = 0
    moe_every: int = 1
    latent: int = 0
    window: int | None = None
    windowed_layers: int = 0
    kv_rank: int = 0
    q_rank: int | None = None
    key_width: int = 128
    rope_width: int = 64
    value_width: int = 128
    ssm_layers: int = 0
    attention_layers: int | None = None
    ssm_heads: int = 0
    ssm_state: int = 128
    mtp_layers: int = 0
    mtp_repeated: bool = False
    seq: int = 8192
    flops_per_token: float | None = None
    aliases: tuple[str, ...] = ()

    @property
    def has_shape(self) -> bool:
        """Whether the shape is known; if not, only `flops_per_token` is."""
        return self.flops_per_token is None

    @property
    def family(self) -> str:
        """`dense`, `moe` or `hybrid`: models of one family share kernels."""
        return "hybrid" if self.ssm_layers else "moe" if self.experts else "dense"

    @property
    def mixers(self) -> int:
        """Layers with attention."""
        return self.layers if self.attention_layers is None else self.attention_layers

    @property
    def moe_layers(self) -> int:
        """Layers with experts."""
        if not self.experts:
            return 0
        if self.ssm_layers:
            return self.layers - self.ssm_layers - self.mixers
        return (self.layers - self.dense_layers) // self.moe_every

    @property
    def mlp_layers(self) -> int:
        """Layers with a dense feed-forward part."""
        return 0 if self.ssm_layers else self.layers - self.moe_layers

    @property
    def head(self) -> int:
        """Width of an attention head."""
        return self.head_width or self.hidden // max(1, self.heads)


SHAPE_FIELDS = {
    "head_width": "head_width", "dense_layers": "dense_layers", "latent": "latent_size", "window": "attention_window",
    "windowed_layers": "windowed_layers", "kv_rank": "kv_rank", "q_rank": "q_rank", "key_width": "key_width",
    "rope_width": "rope_width", "value_width": "value_width", "mtp_layers": "mtp_layers",
    "mtp_repeated": "mtp_repeated", "attention_layers": "attention_layers", "ssm_layers": "ssm_layers",
    "ssm_heads": "ssm_heads", "ssm_state": "ssm_state",
}  # fmt: skip
"""The catalog's field for each field of a model that has no default of its own there."""


def known() -> dict[str, Model]:
    """The models of the table, by name."""
    return dict(_table())


@functools.cache
def _table() -> dict[str, Model]:
    path = resources.files(__package__.rpartition(".")[0]) / "data" / "models.toml"
    tables = read_toml(path, dict[str, dict[str, Any]])
    return {name: convert_toml({**table, "name": name}, Model, f"{path}: [{name}]") for name, table in tables.items()}


def find(text: str) -> Model:
    """The model with this name or alias, ignoring case. Raises `UsageError` with a suggestion if there is none."""
    name = text.lower()
    for model in _table().values():
        if name in (model.name, *(alias.lower() for alias in model.aliases)):
            return model
    raise UsageError(f"no model named '{text}'{did_you_mean(name, _table())}: `llmbx atlas` lists all")


def of_shape(shape: ModelShape, name: str) -> Model:
    """The model of a catalog's shape: that of the table with the same widths, with the shape's number of layers.

    Of several with the same widths the one with the nearest vocabulary is meant. A shape that is not in the table
    becomes a model of its own with this name.
    """
    same = [model for model in _table().values() if model.has_shape and _same(model, shape)]
    if same:
        model = min(same, key=lambda model: abs(model.vocab - shape.vocab_size))
        return model.replace(layers=shape.layers, vocab=shape.vocab_size, seq=shape.sequence_length)
    values: dict[str, Any] = {
        "name": name, "layers": shape.layers, "hidden": shape.hidden_size, "heads": shape.heads,
        "groups": shape.query_groups, "vocab": shape.vocab_size, "seq": shape.sequence_length,
        "ffn": shape.ffn_hidden_size,
    }  # fmt: skip
    if shape.experts:
        values |= {"experts": shape.experts, "top_k": shape.experts_per_token or 1,
                   "moe_ffn": shape.moe_ffn_hidden_size or shape.ffn_hidden_size,
                   "shared_ffn": shape.shared_ffn_hidden_size or 0,
                   "moe_every": shape.moe_layer_every or 1}  # fmt: skip
    values |= {name: value for name, field in SHAPE_FIELDS.items() if (value := getattr(shape, field)) is not None}
    return Model(**values, gated=shape.gated is not False, tied=bool(shape.tied))


def _same(model: Model, shape: ModelShape) -> bool:
    experts = (model.experts, model.top_k) == (shape.experts or 0, shape.experts_per_token or 0)
    width = shape.ffn_hidden_size in (model.ffn, model.moe_ffn) or shape.moe_ffn_hidden_size == model.moe_ffn > 0
    return experts and width and (model.hidden, model.heads, model.groups or model.heads) == (
        shape.hidden_size, shape.heads, shape.query_groups,
    )  # fmt: skip


@functools.lru_cache(maxsize=512)
def terms(model: Model, tokens: int) -> tuple[Term, ...]:
    """What each kind of layer costs for one sample of `tokens`, with prediction layers counted as further layers."""
    return shape_of(model, tokens).layer_terms(tokens)


def shape_of(model: Model, tokens: int) -> ModelShape:
    """The catalog's shape of a model of the table, with samples of `tokens`."""
    own = {field: getattr(model, name) or None for name, field in SHAPE_FIELDS.items()}
    return ModelShape(
        layers=model.layers, hidden_size=model.hidden, ffn_hidden_size=model.ffn, heads=max(1, model.heads),
        query_groups=model.groups or max(1, model.heads), vocab_size=model.vocab, sequence_length=tokens,
        experts=model.experts or None, experts_per_token=model.top_k or None,
        moe_ffn_hidden_size=model.moe_ffn or None, shared_ffn_hidden_size=model.shared_ffn or None,
        moe_layer_every=model.moe_every, gated=model.gated, tied=model.tied, ssm_groups=8, **own,
    )  # fmt: skip
