"""Files of a Hugging Face hub cache with the configurations of models, for recipes that read them from the hub."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from llmbx.api import ModelShape, RunSpec, Value, read_toml

FOLDER = "hub"
"""Folder of the cache in the run folder; the entry program makes it the cache of the Hugging Face libraries."""


class HubModel(Value, frozen=True):
    """A model on the hub: its `config.json`, and the commit that a recipe names (None: whichever is the newest).

    `files` are others that its `config.json` needs, by name; `same_as` is the type of Transformers' own that such a
    model has without them.
    """

    config: dict[str, Any]
    revision: str | None = None
    files: dict[str, str] = {}
    same_as: str | None = None


@functools.cache
def hub_models() -> Mapping[str, HubModel]:
    """Return the known models by the name of their repository."""
    return read_toml(resources.files(__package__) / "hub.toml", dict[str, HubModel])


SIZES = {
    "layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "ffn_hidden_size": "intermediate_size",
    "heads": "num_attention_heads",
    "query_groups": "num_key_value_heads",
    "head_width": "head_dim",
    "vocab_size": "vocab_size",
    "experts_per_token": "num_experts_per_tok",
    "moe_ffn_hidden_size": "moe_intermediate_size",
    "shared_ffn_hidden_size": "moe_shared_expert_intermediate_size",
    "latent_size": "moe_latent_size",
    "attention_window": "sliding_window",
    "kv_rank": "kv_lora_rank",
    "q_rank": "q_lora_rank",
    "key_width": "qk_nope_head_dim",
    "rope_width": "qk_rope_head_dim",
    "value_width": "v_head_dim",
    "dense_layers": "first_k_dense_replace",
    "ssm_heads": "mamba_num_heads",
    "ssm_head_width": "mamba_head_dim",
    "ssm_state": "ssm_state_size",
    "ssm_groups": "n_groups",
}
"""The name in `config.json` of each size of a model, for those that a configuration has."""

EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts")
"""The names of the number of experts, by family of models."""


def config_of(spec: RunSpec) -> dict[str, Any] | None:
    """Return the `config.json` of the run's architecture with the run's sizes; None if it is not one of the hub.

    Lists with one entry for each layer are cut; the layers of a hybrid are mixed evenly.
    """
    name = spec.architecture.get("hub")
    if not isinstance(name, str):
        return None
    entry, model = hub_models()[name], spec.model
    config = dict(entry.config)
    if entry.same_as:
        config["model_type"] = entry.same_as
        config.pop("auto_map", None)
    for size, key in SIZES.items():
        if key in config and (value := getattr(model, size)) is not None:
            config[key] = value
    for key in EXPERTS:
        if key in config:
            config[key] = model.experts
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][: model.layers]
    if "hybrid_override_pattern" in config:
        config["hybrid_override_pattern"] = mixed(model)
    return config


def mixed(model: ModelShape) -> str:
    """Return the layers of a hybrid, one letter each: M is Mamba, E experts, - a dense part, * attention."""
    counts = {"M": model.ssm_layers or 0, "*": model.attention_layers or 0}
    counts["E" if model.experts else "-"] = model.layers - sum(counts.values())
    places = [((index + 0.5) / count, letter) for letter, count in counts.items() for index in range(count)]
    return "".join(letter for _, letter in sorted(places))


def cache_files(repositories: Sequence[str]) -> dict[str, bytes]:
    """Return the files of a cache with the configurations of these repositories, by their path in the run folder.

    The layout is that of huggingface_hub: `refs/main` names the commit, whose files are in `snapshots/COMMIT`.
    """
    files: dict[str, bytes] = {}
    for name in repositories:
        model = hub_models()[name]
        text = json.dumps(model.config, indent=1).encode()
        commit = model.revision or hashlib.sha1(text, usedforsecurity=False).hexdigest()
        folder = f"{FOLDER}/models--{name.replace('/', '--')}"
        files[f"{folder}/refs/main"] = commit.encode()
        files[f"{folder}/snapshots/{commit}/config.json"] = text
        files |= {f"{folder}/snapshots/{commit}/{file}": source.encode() for file, source in model.files.items()}
    return files
