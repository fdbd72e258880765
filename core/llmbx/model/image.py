"""What a run needs around its program, before and after the runtime has fetched it."""

from __future__ import annotations

from .base import Value


class Environment(Value, frozen=True):
    """A Python environment that llmbx builds: a name, the interpreters that fit, and its lock.

    `steps` are pip invocations in order, each a list of exact requirements; `no_deps` names the steps (by index) that
    are installed without their dependencies. `variants` maps a requirement to the builds that are admitted for it, best
    first, each with the extra index that has it (None: the configured ones). Sizes are measured, in megabytes.
    """

    name: str
    pythons: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    no_deps: tuple[int, ...] = ()
    variants: dict[str, tuple[tuple[str, str | None], ...]] = {}
    download_mb: int | None = None
    disk_mb: int | None = None
    check: str = ""
    """A Python statement that must succeed in the finished environment."""
    main: tuple[str, ...] = ()
    """Packages whose versions every record shows (empty: all that the lock pins)."""
    variant_mb: dict[str, tuple[int, int]] = {}
    """Megabytes to download and on disk, of the whole environment, where a build of `variants` makes them differ."""


class ImageRequest(Value, frozen=True):
    """What a framework asks for: an environment, a container image, or either, whichever the runtime can use.

    `repositories` are gated repositories of the model hub that the ranks will read; access is proved before the start.
    `accept_change` (core's, from `--accept-image-change`) admits an image that is not the one first seen.
    """

    environment: Environment | None = None
    reference: str | None = None
    digest: str | None = None
    repositories: tuple[str, ...] = ()
    accept_change: bool = False


class Image(Value, frozen=True):
    """What the runtime made of the request: where it lies and what proves it.

    `python` is the interpreter to start programs with, as seen inside the runtime.
    """

    kind: str
    reference: str
    python: str
    path: str | None = None
    digest: str | None = None
    versions: dict[str, str] = {}
