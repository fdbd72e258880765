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
    """Llama 3.1, Llama 4 Maverick and Grok-1, each with its sizes and a mini."""
    from .workloads import workloads

    return workloads()


@hookimpl
def check_spec(spec: RunSpec) -> Sequence[Finding]:
    """Megatron's own rules."""
    from .rules import findings

    return findings(spec)


@hookimpl
def prepare_image(spec: RunSpec) -> ImageRequest:
    """The environment for a machine without a GPU, or the image of the recipe."""
    from .launch import request

    return request(spec)


@hookimpl
def build_command(spec: RunSpec, image: Image) -> Launch:
    """One training phase; every rank drives one GPU."""
    from .launch import launch

    return launch(spec, image)


@hookimpl
def log_formats() -> Sequence[LogFormat]:
    """Megatron-Bridge, Megatron-LM, NeMo 2 and NeMo 1."""
    from .grammar import formats

    return formats()


@hookimpl
def parse_log(spec: RunSpec | None) -> LogParser:
    """The grammar of what the recipe's driver prints."""
    from .grammar import parser

    return parser(spec)


@hookimpl
def compute_flops(spec: RunSpec) -> Flops:
    """The recipes' formula, under both conventions."""
    from .flops import compute

    return compute(spec.model)
