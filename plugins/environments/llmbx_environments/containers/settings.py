"""Settings of the container runtimes: limits of image imports, and registries without TLS."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta

from llmbx.api import Natural, Option, Settings

TIMEOUT = "LLMBX_IMAGE_TIMEOUT_S"
"""Variable with the time limit of an import in seconds."""

Duration = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
"""A finite number of seconds >= 0."""


def _option(text: str, variable: str) -> Option:
    return Option(help=text, name="", variables=(variable,))


class ContainerSettings(Settings, frozen=True):
    """The table `[clusters.NAME.containers]`."""

    plugin: ClassVar[str] = "containers"
    synonyms: ClassVar[Mapping[str, str]] = {
        "apptainer": "singularity",
        "venv": "virtualenv conda uv",
    }

    image_timeout_s: Annotated[
        Duration,
        _option("Time limit of an image import in seconds. [default: 7200]", TIMEOUT),
    ] = 7200.0
    image_retries: Annotated[
        Natural,
        _option(
            "Maximum number of retries after transient failures of an import. [default: 4]",
            "LLMBX_IMAGE_RETRIES",
        ),
    ] = 4
    image_backoff_s: Annotated[
        Duration,
        _option(
            "Seconds before the first retry; they double for each further one. [default: 1]",
            "LLMBX_IMAGE_BACKOFF_S",
        ),
    ] = 1.0
    registry_timeout_s: Annotated[
        Duration,
        _option(
            "Response timeout of a registry in seconds. [default: 30]", "LLMBX_REGISTRY_TIMEOUT_S"
        ),
    ] = 30.0
    http_registries: Annotated[
        str,
        _option(
            "Registries without TLS, separated by commas, besides those on loopback.",
            "LLMBX_HTTP_REGISTRIES",
        ),
    ] = ""

    def plain_http(self, registry: str) -> bool:
        """Whether `registry` uses plain HTTP: on loopback, or if listed in `http_registries`."""
        host = registry.rsplit(":", 1)[0] if registry.count(":") == 1 else registry
        listed = self.http_registries.replace(",", " ").split()
        return host == "localhost" or host.startswith("127.") or registry in listed
