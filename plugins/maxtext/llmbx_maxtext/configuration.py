"""The program that builds MaxText's final configuration on a CPU, without training."""

from __future__ import annotations

from importlib import resources

from llmbx.api import ConfigurationProgram, InfraError, RunSpec, environments, payload

from .arguments import arguments
from .launch import files, measured_stage
from .releases import release_of, releases

ENVIRONMENT = "maxtext-cpu"

PROGRAM = "configure.py"


def program(spec: RunSpec) -> ConfigurationProgram:
    """Return the program that builds the configuration of the measured phase.

    Raises `InfraError` if the run's release of MaxText cannot be installed.
    """
    release = release_of(spec)
    if not release.cpu:
        known = ", ".join(name for name, found in releases().items() if found.cpu)
        raise InfraError(
            f"{release.title} cannot be installed as a package: use --run with a run's id, or --set maxtext={known}"
        )
    stage = measured_stage(spec, "train", None)
    return ConfigurationProgram(
        environment=environments.load_environment(
            resources.files(__package__) / "environments" / f"{ENVIRONMENT}.toml"
        ),
        argv=(f"{payload.CODE}/{PROGRAM}", *arguments(spec, release, stage)),
        files=files(spec, release, None),
        env={
            "JAX_PLATFORMS": "cpu",
            "DECOUPLE_GCLOUD": "TRUE",
            "HF_HUB_OFFLINE": "1",
            "TF_CPP_MIN_LOG_LEVEL": "1",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={spec.gpus}",
        },
    )
