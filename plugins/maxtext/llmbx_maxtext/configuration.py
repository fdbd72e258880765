"""What a run's final configuration should be, and the program that builds it on a CPU without training."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from llmbx.api import (
    ConfigurationProgram,
    ExpectedConfiguration,
    Image,
    RunSpec,
    load_environment,
    payload_files,
)

from .arguments import arguments, processes
from .launch import PROGRAMS, collect_stage, measured_stage
from .pgle import profile_of
from .releases import Release, pgle_mode, release_of
from .upstream import COLLECT, Upstream, permitted, upstream_of

ENVIRONMENT = "maxtext-cpu"

PROGRAM = "configure.py"

FINAL = "configs/final.json"

NO_IMAGE = Image(kind="none", reference="none", python="python3")
"""Image of a launch that is not started."""

LAUNCH = ("launch.",)
"""Begins the keys that are not MaxText's."""

WORDS = {"true": True, "false": False}

FACTS = {
    "layers": "num_decoder_layers",
    "hidden_size": "emb_dim",
    "heads": "num_query_heads",
    "query_groups": "num_kv_heads",
    "head_width": "head_dim",
    "ffn_hidden_size": "mlp_dim",
    "experts": "num_experts",
    "experts_per_token": "num_experts_per_tok",
    "mtp_layers": "mtp_num_layers",
    "vocab_size": "vocab_size",
    "sequence_length": "max_target_length",
    "global_batch_size": "global_batch_size_to_train_on",
    "microbatches": "gradient_accumulation_steps",
}
"""MaxText's keys, by the names of facts."""

LATENT = {
    "kv_rank": "kv_lora_rank",
    "q_rank": "q_lora_rank",
    "key_width": "qk_nope_head_dim",
    "rope_width": "qk_rope_head_dim",
    "value_width": "v_head_dim",
}
"""Those of latent attention, for which every model has defaults; its heads have no common width."""


def expected(spec: RunSpec, run_dir: Path | None) -> ExpectedConfiguration:
    """Return upstream's configuration, or the requested values if it is not known, and the permitted differences.

    The configuration of a run is that of its last phase.
    """
    content = upstream_of(spec, release_of(spec))
    values = content.values(spec) if content else None
    if values and run_dir:
        values = {key: value for key, value in values.items() if not key.startswith(COLLECT)}
    other_steps = bool(values and run_dir and values["steps"] != spec.steps)
    return ExpectedConfiguration(
        upstream=values,
        source=content.source if content and values else None,
        other=LAUNCH,
        permitted=permitted(spec.recipe, run_dir is not None, other_steps),
        requested=requested(spec),
        facts=facts_of(spec),
    )


def facts_of(spec: RunSpec) -> dict[str, tuple[str, ...]]:
    """Return the keys that state the job's size, by the names of facts."""
    keys = {**FACTS, **LATENT} if spec.model.kv_rank else FACTS
    return {name: (key,) for name, key in keys.items() if name != "head_width" or not spec.model.kv_rank}


def requested(spec: RunSpec) -> dict[str, Any]:
    """Return the values that the arguments of the measured phase set, without names and folders."""
    paths = permitted(spec.recipe, ran=True, other_steps=False)
    release = release_of(spec)
    values = typed(phases(spec, release)[""], {})
    if release.module:  # the package's configuration has null for an empty text
        values = {key: None if value == "" else value for key, value in values.items()}
    return {key: value for key, value in values.items() if not any(entry.covers(key) for entry in paths)}


def phases(spec: RunSpec, release: Release) -> dict[str, tuple[str, ...]]:
    """Return MaxText's arguments of the training phases, by the beginning of their keys."""
    if pgle_mode(spec) == "off":
        return {"": arguments(spec, release, measured_stage(spec, "train", None))}
    profile = profile_of(spec, NO_IMAGE, release)
    assert profile is not None
    return {
        "": arguments(spec, release, measured_stage(spec, "measure", profile)),
        COLLECT: arguments(spec, release, collect_stage(profile)),
    }


def typed(words: Iterable[str], like: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of arguments by key; one that `like` has as text is text."""
    pairs = (word.split("=", 1) for word in words)
    return {key: text if isinstance(like.get(key), str) else _value(text) for key, text in pairs}


def _value(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return [_value(part.strip()) for part in text[1:-1].split(",")]
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def program(spec: RunSpec) -> ConfigurationProgram:
    """Return the program that builds the configuration of every training phase.

    A release that is not a package is executed from its source tree; without one, the arguments are merged into the
    values of its base.yml, if those are known.
    """
    release = release_of(spec)
    words = phases(spec, release)
    local = spec.gpus // (spec.nodes * processes(spec))
    more = {"program": release, "phases": words, "local_devices": local}
    payload = payload_files(spec, __package__, PROGRAMS, more)
    merged = {} if release.cpu else {FINAL: _merged(upstream_of(spec, release), spec, words)}
    return ConfigurationProgram(
        environment=load_environment(resources.files(__package__) / "environments" / f"{ENVIRONMENT}.toml"),
        argv=(f"code/{PROGRAM}",) if release.cpu else (),
        files={**payload, **merged},
        env={
            "JAX_PLATFORMS": "cpu",
            "DECOUPLE_GCLOUD": "TRUE",
            "HF_HUB_OFFLINE": "1",
            "TF_CPP_MIN_LOG_LEVEL": "1",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=1",  # every launch sets some
        },
        checkout=(f"code/{PROGRAM}", "--source={source}"),
    )


def _merged(content: Upstream | None, spec: RunSpec, words: Mapping[str, Iterable[str]]) -> bytes:
    """The values of base.yml with the arguments of every phase."""
    base = content.base_of(spec.size) if content else None
    values: dict[str, Any] = {}
    for begin, phase in words.items():
        merged = {**(base or {}), **typed(phase, base or {})}
        values |= {f"{begin}{key}": value for key, value in merged.items()}
    return json.dumps({"final": values}).encode()
