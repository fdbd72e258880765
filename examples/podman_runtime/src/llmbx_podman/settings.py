"""Settings of Podman: the option `--podman-options`, and the table `[clusters.NAME.podman]`."""

import shlex
from typing import Annotated, ClassVar

from llmbx.api import Option, Settings, UsageError


class PodmanSettings(Settings, frozen=True):
    """How containers are started."""

    plugin: ClassVar[str] = "podman"
    variable_prefixes: ClassVar[tuple[str, ...]] = ("CONTAINERS_",)

    options: Annotated[
        str, Option(help="Further options of `podman run`.", metavar="OPTIONS", variables=("LLMBX_PODMAN_OPTIONS",))
    ] = ""

    def words(self) -> list[str]:
        """The words of `options`. Raises `UsageError` if a quote is not closed."""
        try:
            return shlex.split(self.options)
        except ValueError as error:
            raise UsageError(f"--podman-options {self.options!r}: {error}") from error
