"""Hooks of the NeMo plugin. Each hook imports the module that implements it on its first call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmbx.api import hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    from llmbx.api import (
        ConfigurationProgram,
        ExpectedConfiguration,
        Finding,
        Flops,
        Image,
        ImageRequest,
        Launch,
        LogFormat,
        RunSpec,
        Settings,
        Workload,
    )


@hookimpl
def register_settings() -> type[Settings]:
    """Register the settings of all workloads of this framework."""
    from .settings import NemoSettings

    return NemoSettings


@hookimpl
def register_workloads() -> Sequence[Workload]:
    """Register the workloads of the catalog, each with its sizes and a mini."""
    from .workloads import workloads

    return workloads()


@hookimpl
def check_spec(spec: RunSpec) -> Sequence[Finding]:
    """Check the specification against Megatron's rules."""
    from .rules import findings

    return findings(spec)


@hookimpl
def prepare_image(spec: RunSpec) -> ImageRequest:
    """Request the CPU environment for a machine without a GPU, else the image of the recipe."""
    from .launch import request

    return request(spec)


@hookimpl
def build_command(spec: RunSpec, image: Image) -> Launch:
    """Build one training phase in which every rank uses one GPU."""
    from .launch import launch

    return launch(spec, image)


@hookimpl
def parse_log(spec: RunSpec | None) -> Sequence[LogFormat]:
    """Return the log formats of Megatron-Bridge, Megatron-LM, NeMo 2 and NeMo 1, that of the recipe's driver first."""
    from .grammar import formats

    return formats(spec)


@hookimpl
def compute_flops(spec: RunSpec) -> Flops:
    """Compute the model FLOPs with the recipes' formula, under both conventions."""
    from .flops import compute

    return compute(spec.model)


@hookimpl
def expect_configuration(spec: RunSpec, run_dir: Path | None) -> ExpectedConfiguration:
    """Return the configuration of upstream's launch, if it is known."""
    from .upstream import expected

    return expected(spec, run_dir)


@hookimpl
def configuration_program(spec: RunSpec) -> ConfigurationProgram:
    """Build the configuration with the versions in the run's image."""
    from .upstream import program

    return program(spec)
