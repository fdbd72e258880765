"""Settings of all workloads of NeMo."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from llmbx.api import Option, Positive, RunSpec, Settings, settings_of

OVERRIDE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+=.*", re.ASCII)
"""One field of the framework's configuration and its value."""


class NemoSettings(Settings, frozen=True):
    """The table `[clusters.NAME.nemo]`."""

    plugin: ClassVar[str] = "nemo"
    synonyms: ClassVar[Mapping[str, str]] = {
        "local": "torchrun",
        "nemo": "megatron megatron-bridge megatron-lm mcore nemo2",
        "run": "torchrun",
    }

    fp8_recipe: Annotated[
        Literal["cs", "mx", "delayed"], Option(help="FP8 scaling: cs (current), mx (MXFP8, Blackwell only) or delayed.")
    ] = "cs"
    lr: Annotated[Annotated[float, Meta(ge=0, le=sys.float_info.max)], Option(help="Peak learning rate.")] = 3e-4
    seed: Annotated[
        Annotated[int, Meta(ge=0, lt=1 << 32)], Option(help="Random seed of weights and data.", metavar="N")
    ] = 1234
    tp_comm_overlap: Annotated[
        bool,
        Option(help="Overlap tensor-parallel communication with compute (TP above 1, Transformer Engine)."),
    ] = False
    check_for_nan: Annotated[
        bool,
        Option(help="Check every loss and gradient for NaN (one synchronization per step; not with CUDA graphs)."),
    ] = False
    distributed_timeout_minutes: Annotated[
        Positive, Option(help="Timeout in minutes after which a hanging collective ends the run.")
    ] = 10
    overrides: Annotated[
        str, Option(help="Fields of the framework's configuration: section.field=value, separated by spaces.")
    ] = ""
    attention: Annotated[
        Literal["auto", "sdpa", "cudnn", "flash", "unfused"],
        Option(
            help="Attention kernel without Transformer Engine: sdpa (torch's best), cudnn, flash, unfused (Megatron's "
            "own); auto: sdpa on a GPU, unfused on a CPU."
        ),
    ] = "auto"
    numa_binding: Annotated[
        bool,
        Option(help="Bind each rank to the cores and memory of its socket (numactl), as upstream does on GPU nodes."),
    ] = False
    tokenizer: Annotated[
        Literal["null", "hub"],
        Option(help="null: synthetic tokens, no download; hub: the model's own tokenizer (Grok-1: Llama 3's), gated."),
    ] = "null"

    def __post_init__(self) -> None:
        """Raise `ValueError` for an override that names no field or no value."""
        for word in self.overrides.split():
            if not OVERRIDE.fullmatch(word):
                raise ValueError(f"overrides: {word!r}: expected section.field=value")


def settings(spec: RunSpec) -> NemoSettings:
    """The settings of a run."""
    return settings_of(spec, NemoSettings)
