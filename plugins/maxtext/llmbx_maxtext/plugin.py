"""What this plugin tells llmbx: thin hooks, each passes on to the module that knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmbx import hookimpl

if TYPE_CHECKING:
    from llmbx.logs.parser import LogFormat, LogParser
    from llmbx.model import Finding, Image, ImageRequest, Launch, RunSpec, Workload
    from llmbx.model.flops import Flops


@hookimpl
def register_workloads() -> Sequence[Workload]:
    """Llama 2 (70b and a mini), and a mixture of experts (mini)."""
    from .workloads import workloads

    return workloads()


@hookimpl
def check_spec(spec: RunSpec) -> Sequence[Finding]:
    """MaxText's own rules."""
    from .rules import findings

    return findings(spec)


@hookimpl
def prepare_image(spec: RunSpec) -> ImageRequest:
    """The environment for a machine without a GPU, or the image of the recipe."""
    from .launch import request

    return request(spec)


@hookimpl
def build_command(spec: RunSpec, image: Image) -> Launch:
    """One training phase, or PGLE's phases."""
    from .launch import launch

    return launch(spec, image)


@hookimpl
def log_formats() -> Sequence[LogFormat]:
    """MaxText's step lines, in all versions."""
    from .grammar import formats

    return formats()


@hookimpl
def parse_log(spec: RunSpec | None) -> LogParser:
    """The grammar of MaxText's step lines."""
    from .grammar import parser

    return parser(spec)


@hookimpl
def compute_flops(spec: RunSpec) -> Flops:
    """The recipe's formula."""
    from .flops import compute

    return compute(spec.model)
