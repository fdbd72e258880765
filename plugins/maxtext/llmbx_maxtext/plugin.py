"""Hooks of the MaxText plugin. Each hook imports the module that implements it on its first call."""

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
    from .settings import MaxtextSettings

    return MaxtextSettings


@hookimpl
def register_workloads() -> Sequence[Workload]:
    """Register Llama 2 (70b and a mini) and a mixture of experts (mini)."""
    from .workloads import workloads

    return workloads()


@hookimpl
def check_spec(spec: RunSpec) -> Sequence[Finding]:
    """Check the specification against MaxText's rules."""
    from .rules import findings

    return findings(spec)


@hookimpl
def prepare_image(spec: RunSpec) -> ImageRequest:
    """Request the CPU environment for a machine without a GPU, else the image of the recipe."""
    from .launch import request

    return request(spec)


@hookimpl
def build_command(spec: RunSpec, image: Image) -> Launch:
    """Build one training phase, or the phases of PGLE."""
    from .launch import launch

    return launch(spec, image)


@hookimpl
def parse_log(spec: RunSpec | None) -> Sequence[LogFormat]:
    """Return MaxText's log format, which is the same for all versions."""
    from .grammar import formats

    return formats(spec)


@hookimpl
def compute_flops(spec: RunSpec) -> Flops:
    """Compute the model FLOPs with the recipe's formula."""
    from .flops import compute

    return compute(spec.model)


@hookimpl
def expect_configuration(spec: RunSpec, run_dir: Path | None) -> ExpectedConfiguration:
    """Declare that every run writes its configuration. Upstream's is not known."""
    from .configuration import expected

    return expected()


@hookimpl
def configuration_program(spec: RunSpec) -> ConfigurationProgram:
    """Build the configuration with MaxText's package."""
    from .configuration import program

    return program(spec)
