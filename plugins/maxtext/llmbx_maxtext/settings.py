"""Settings of all workloads of MaxText."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from llmbx.api import Natural, Option, Positive, RunSpec, Settings, settings_of

ARGUMENT = re.compile(r"[A-Za-z_]\w*=.*", re.ASCII)
"""One argument of MaxText."""

NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
"""The name of a kernel or policy. MaxText knows which ones its release has."""


class MaxtextSettings(Settings, frozen=True):
    """The table `[clusters.NAME.maxtext]`."""

    plugin: ClassVar[str] = "maxtext"
    synonyms: ClassVar[Mapping[str, str]] = {"maxtext": "jax"}

    maxtext: Annotated[
        Literal["by-image", "2024.12", "0.2"],
        Option(
            help="MaxText release in the image; selects argument names, XLA flags and PGLE mode (by-image: from the "
            "image's date).",
            name="--maxtext-release",
        ),
    ] = "by-image"
    pgle: Annotated[
        Literal["by-image", "off", "nsys", "jax", "cpu-standin"],
        Option(
            help="Mode of profile-guided latency estimation: nsys (with JAX's converter), jax (automatic), cpu-standin "
            "(test on a CPU)."
        ),
    ] = "by-image"
    processes: Annotated[
        Positive | None,
        Option(
            help="Number of processes per node; they share its devices equally. [default: one for each "
            "GPU, one without a GPU]"
        ),
    ] = None
    attention: Annotated[
        str,
        Option(
            help="Attention kernel: cudnn_flash_te, cudnn_flash_jax (without Transformer Engine), dot_product …",
            metavar="NAME",
        ),
    ] = "dot_product"
    remat_policy: Annotated[
        str,
        Option(help="What is stored for the backward pass: full, minimal, custom (see remat_keep) …", metavar="POLICY"),
    ] = "full"
    remat_keep: Annotated[
        str,
        Option(help="Tensors that stay on the device with remat_policy=custom, separated by commas.", name=""),
    ] = ""
    scan_layers: Annotated[
        bool, Option(help="Compile one layer and loop over it, instead of compiling all layers.")
    ] = True
    lr: Annotated[
        float | None,
        Option(help="Learning rate. [default: MaxText's]"),
    ] = None
    command_buffers: Annotated[
        str,
        Option(
            help="Kinds of commands that XLA captures in CUDA graphs: FUSION,CUSTOM_CALL …; none if empty.", name=""
        ),
    ] = ""
    omit_flags: Annotated[
        str,
        Option(help="XLA flags of the MaxText release to leave out, by name, separated by commas.", name=""),
    ] = ""
    combine_gib: Annotated[
        Positive,
        Option(help="Size in GiB that is divided for the thresholds for combining collectives.", name=""),
    ] = 8
    all_reduce_divisor: Annotated[
        Natural,
        Option(
            help="Threshold for combining all-reduces: combine_gib divided by this value (0: XLA's default).", name=""
        ),
    ] = 0
    all_gather_divisor: Annotated[
        Natural,
        Option(
            help="Threshold for combining all-gathers: combine_gib divided by this value (0: XLA's default).", name=""
        ),
    ] = 0
    reduce_scatter_divisor: Annotated[
        Natural,
        Option(
            help="Threshold for combining reduce-scatters: combine_gib divided by this value (0: XLA's default).",
            name="",
        ),
    ] = 0
    hlo_dump: Annotated[bool, Option(help="Write XLA's modules as text to the run folder (hlo/<phase>).")] = False
    extra: Annotated[
        str,
        Option(
            help="Additional MaxText arguments (key=value, separated by spaces); they override all others.",
            metavar="ARGUMENTS",
        ),
    ] = ""

    def __post_init__(self) -> None:
        """Raise `ValueError` for an argument without key or value, and for text where a name belongs."""
        for word in self.extra.split():
            if not ARGUMENT.fullmatch(word):
                raise ValueError(f"extra: {word!r}: expected key=value")
        for name in ("attention", "remat_policy"):
            if not NAME.fullmatch(value := getattr(self, name)):
                raise ValueError(f"{name}: {value!r}: expected a name, for example {getattr(type(self)(), name)}")


def settings(spec: RunSpec) -> MaxtextSettings:
    """The settings of a run."""
    return settings_of(spec, MaxtextSettings)
