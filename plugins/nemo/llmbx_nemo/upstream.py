"""Upstream's final configurations, and the program that builds llmbx's.

`upstream/WORKLOAD-RECIPE.json` has the values of upstream's launches, executed: `common` to all configurations, and
`configurations` by size/dtype/GPU type/GPUs. What several have in common is in `shared`, by a name that the
configurations list under `shared`. `source` says which programs were executed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from llmbx.api import (
    ConfigurationProgram,
    ExpectedConfiguration,
    Permitted,
    RunSpec,
    Value,
    payload_files,
    read_toml,
)

from .image_versions import environment_of
from .launch import CPU_ENV
from .published import hub_files, is_function, more_of_spec, published

OTHER = (
    "launch.argv", "launch.name", "launch.pre_cmds", "launch.segment", "launch.srun_args",
    "launch.env.PYTHONUNBUFFERED", "process_env.", "__version__",
)  # fmt: skip
"""Keys that are not compared: how the launch is written, the process's environment, the package's version."""

OTHER_IN_RUN = ("launch.", "process_env.", "__version__")
"""Keys that the configuration of a run does not have."""

BRIDGE_FACTS = {
    "global_batch_size": "train.global_batch_size",
    "micro_batch_size": "train.micro_batch_size",
    "vocab_size": "tokenizer.vocab_size",
    "data_parallel_size": "data_parallel_size",
}
"""Megatron-Bridge's keys, by the names of facts."""

NEMO2_FACTS = {
    "global_batch_size": "data.global_batch_size",
    "micro_batch_size": "data.micro_batch_size",
    "vocab_size": "connected.config.vocab_size",
    "data_parallel_size": "connected.data_parallel_size",
}
"""NeMo 2's keys, by the names of facts. Its recipes leave the vocabulary to the tokenizer, and it is null then."""

SIZES = {
    "layers": "num_layers",
    "hidden_size": "hidden_size",
    "sequence_length": "seq_length",
    "heads": "num_attention_heads",
    "query_groups": "num_query_groups",
    "head_width": "kv_channels",
    "ffn_hidden_size": "ffn_hidden_size",
    "experts": "num_moe_experts",
    "experts_per_token": "moe_router_topk",
    "moe_ffn_hidden_size": "moe_ffn_hidden_size",
    "shared_ffn_hidden_size": "moe_shared_expert_intermediate_size",
    "latent_size": "moe_latent_size",
    "mtp_layers": "mtp_num_layers",
    "kv_rank": "kv_lora_rank",
    "q_rank": "q_lora_rank",
    "key_width": "qk_head_dim",
    "rope_width": "qk_pos_emb_head_dim",
    "value_width": "v_head_dim",
    "ssm_heads": "mamba_num_heads",
    "ssm_head_width": "mamba_head_dim",
    "ssm_state": "mamba_state_dim",
}
"""Megatron's fields of the model's sizes, by the names of facts."""

IN_EVERY_MODEL = ("experts", "mtp_layers")
"""Sizes that a run may state for a model that has none of them."""

PROGRAM = "configure.py"

ENV = {**CPU_ENV, "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": ""}
"""Environment of the program, which needs neither a GPU nor the network."""


@functools.cache
def upstream(workload: str, recipe: str) -> Mapping[str, Any] | None:
    """Return the contents of the file of a recipe, or None if upstream's configurations are not known."""
    path = resources.files(__package__) / "upstream" / f"{workload}-{recipe}.json"
    content: dict[str, Any] | None = json.loads(path.read_bytes()) if path.is_file() else None
    return content


def upstream_values(spec: RunSpec) -> Mapping[str, Any] | None:
    """Return upstream's value by key for the run's row; None if it is not known."""
    return _values(spec.workload, spec.recipe, spec.configuration_key)


@functools.cache
def _values(workload: str, recipe: str, key: str) -> Mapping[str, Any] | None:
    content = upstream(workload, recipe)
    own = content and content["configurations"].get(key)
    if not content or not own:
        return None
    values = dict(content["common"])
    for name in own.get("shared", ()):
        values |= content["shared"][name]
    return values | {key: value for key, value in own.items() if key != "shared"}


def expected(spec: RunSpec, run_dir: Path | None) -> ExpectedConfiguration:
    """Return upstream's configuration and the permitted differences.

    For a run, these include the values that depend on the machine and on the options of the run.
    """
    data = published(spec.workload, spec.recipe)
    values = None if spec.derived else upstream_values(spec)  # upstream has no such configuration
    content = upstream(spec.workload, spec.recipe)
    permitted = data.permitted if data else ()
    return ExpectedConfiguration(
        upstream=dict(values) if values else None,
        source=content["source"] if content and values else None,
        other=OTHER_IN_RUN if run_dir else OTHER,
        permitted=(*permitted, *of_run(spec, steps_of(values or {}))) if run_dir else permitted,
        facts=facts_of(spec),
    )


def facts_of(spec: RunSpec) -> dict[str, tuple[str, ...]]:
    """Return the keys of the final configuration that state the job's size, by the names of facts.

    Sizes that the model does not have are left out: Megatron states its defaults for some of them.
    """
    model = {"megatron-bridge": "model", "nemo2": "connected.config"}.get(spec.driver)
    if model is None:
        return {}
    own = BRIDGE_FACTS if spec.driver == "megatron-bridge" else NEMO2_FACTS
    sizes = {name for name in SIZES if getattr(spec.model, name) is not None} | {*IN_EVERY_MODEL}
    if not spec.model.kv_rank:
        sizes.add("head_width")
    if is_function(spec):  # its tokenizer may have fewer words than the model: mock data uses 32,000 of them
        own = {**own, "vocab_size": f"{model}.vocab_size"}
    degrees = (f"{model}.{kind}_parallel_size" for kind in ("tensor_model", "pipeline_model", "context"))
    return {
        **{name: (f"{model}.{field}",) for name, field in SIZES.items() if name in sizes},
        "world_size": (own["data_parallel_size"], *degrees),
        **{name: (key,) for name, key in own.items() if name != "data_parallel_size"},
    }


def steps_of(values: Mapping[str, Any]) -> int | None:
    """Return the number of steps of a configuration, or None if it is not known."""
    return next((values[key] for key in ("train.train_iters", "trainer.max_steps") if key in values), None)


class RunDifference(Value, frozen=True):
    """Fields in which the configuration of a run may differ: always, or only if the run uses an option."""

    keys: tuple[str, ...]
    reason: str
    option: Literal["steps", "checkpoint", "load"] | None = None


def of_run(spec: RunSpec, steps: int | None) -> Iterator[Permitted]:
    """Differences that are permitted in a run: what the machine and the run's options decide.

    `steps` is the number of steps of upstream's launch.
    """
    used = {"steps": spec.steps != steps, "checkpoint": spec.checkpoint.save, "load": spec.checkpoint.load is not None}
    file = read_toml(resources.files(__package__) / "run_differences.toml", dict[str, list[RunDifference]])
    for difference in file.get(spec.driver, ()):
        if difference.option is None or used[difference.option]:
            yield Permitted(keys=difference.keys, reason=difference.reason)


def program(spec: RunSpec) -> ConfigurationProgram:
    """Return the program that builds the configuration in the version of the run's image."""
    return ConfigurationProgram(
        environment=environment_of(spec), argv=(f"code/{PROGRAM}",), files=program_files(spec), env=ENV
    )


def program_files(spec: RunSpec) -> dict[str, bytes]:
    """Return the files of the program that builds the configuration, for any environment."""
    return {**payload_files(spec, __package__, (PROGRAM,), more_of_spec(spec)), **hub_files(spec)}
