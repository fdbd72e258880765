"""The program that builds MaxText's final configuration on a CPU, without training."""

from __future__ import annotations

from importlib import resources

from llmbx.api import ConfigurationProgram, ExpectedConfiguration, InfraError, RunSpec, load_environment

from .arguments import arguments
from .launch import files, measured_stage
from .releases import release_of, releases

ENVIRONMENT = "maxtext-cpu"

PROGRAM = "configure.py"


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


def expected() -> ExpectedConfiguration:
    """Return what a run's final configuration states. Upstream's values are not known."""
    return ExpectedConfiguration(facts={name: (key,) for name, key in FACTS.items()})


def program(spec: RunSpec) -> ConfigurationProgram:
    """Return the program that builds the configuration of the measured phase.

    Raises `InfraError` if the run's release of MaxText cannot be installed.
    """
    release = release_of(spec)
    if not release.cpu:
        names = ", ".join(name for name, other in releases().items() if other.cpu)
        raise InfraError(
            f"{release.title} cannot be installed as a package: use --run with a run's id, or --set maxtext={names}"
        )
    stage = measured_stage(spec, "train", None)
    return ConfigurationProgram(
        environment=load_environment(resources.files(__package__) / "environments" / f"{ENVIRONMENT}.toml"),
        argv=(f"code/{PROGRAM}", *arguments(spec, release, stage)),
        files=files(spec, release, None),
        env={
            "JAX_PLATFORMS": "cpu",
            "DECOUPLE_GCLOUD": "TRUE",
            "HF_HUB_OFFLINE": "1",
            "TF_CPP_MIN_LOG_LEVEL": "1",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={spec.gpus}",
        },
    )
