"""Settings of the environments that llmbx builds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from llmbx.api import Layer, Option, Settings, UsageError

ALLOW_CUDA_BUILD = "LLMBX_ALLOW_CUDA_BUILD"
"""The variable that allows CUDA builds in environments without CUDA."""

INSTALLER = "LLMBX_INSTALLER"
"""The variable that selected the installer, before uv was the only one."""

_REMOVED = "uv installs all environments now, with pip's settings: remove this setting"


class VenvSettings(Settings, frozen=True):
    """The table `[clusters.NAME.venv]`."""

    plugin: ClassVar[str] = "venv"

    cuda: Annotated[
        Literal["12", "13"] | None,
        Option(
            help="Version of CUDA of a GPU run's environment, if the recipe has several. "
            "[default: the newest]"
        ),
    ] = None
    allow_cuda_build: Annotated[
        bool,
        Option(
            help="Without a GPU, install the CUDA build of a package if its CPU build is not "
            "available.",
            name="--allow-cuda-build",
            variables=(ALLOW_CUDA_BUILD,),
        ),
    ] = False

    @classmethod
    def read_environ(cls, environ: Mapping[str, str]) -> Mapping[str, tuple[Any, str]]:
        """Read nothing. Raises `UsageError` if the removed variable selects another installer."""
        installer = environ.get(INSTALLER, "").strip()
        if installer not in ("", "auto", "uv"):
            raise UsageError(f"{INSTALLER}={installer}: {_REMOVED}")
        return {}

    @classmethod
    def normalize(cls, layer: Layer) -> Layer:
        """Return the layer. Raises `UsageError` if it has the removed setting `installer`."""
        if "installer" in layer.values:
            raise UsageError(f"{layer.origins['installer']}: venv.installer: {_REMOVED}")
        return layer
