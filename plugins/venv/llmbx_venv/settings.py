"""Settings of the environments that llmbx builds."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from llmbx.api import Option, Settings

ALLOW_CUDA_BUILD = "LLMBX_ALLOW_CUDA_BUILD"
"""The variable that allows CUDA builds in environments without CUDA."""

INSTALLER = "LLMBX_INSTALLER"
"""The variable that selects the installer: `pip`, `uv`, or `auto`."""


class VenvSettings(Settings, frozen=True):
    """The table `[clusters.NAME.venv]`."""

    plugin: ClassVar[str] = "venv"

    cuda: Annotated[
        Literal["12", "13"] | None,
        Option(help="Version of CUDA of a GPU run's environment, if the recipe has several. [default: the newest]"),
    ] = None
    allow_cuda_build: Annotated[
        bool,
        Option(help="Without a GPU, install the CUDA build of a package if its CPU build is not available.",
               name="--allow-cuda-build", variables=(ALLOW_CUDA_BUILD,)),
    ] = False  # fmt: skip
    installer: Annotated[
        Literal["auto", "pip", "uv"] | None,
        Option(help="Tool that builds environments. auto: uv if installed, and pip if uv fails. [default: auto]",
               name="", variables=(INSTALLER,)),
    ] = None  # fmt: skip
