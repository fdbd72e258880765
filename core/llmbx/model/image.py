"""What a run needs around its program, before and after the runtime has fetched it."""

from __future__ import annotations

from .base import Value


class Environment(Value, frozen=True):
    """A Python environment that llmbx builds: a name, the interpreters that fit, and its lock."""

    name: str
    """Its name, in folders and images."""
    pythons: tuple[str, ...]
    """The Python versions that fit, best first ("3.12")."""
    steps: tuple[tuple[str, ...], ...]
    """pip's invocations in order, each a list of exact requirements."""
    no_deps: tuple[int, ...] = ()
    """The steps, by index, that are installed without their dependencies."""
    variants: dict[str, tuple[tuple[str, str | None], ...]] = {}
    """Requirement -> the builds that are admitted for it, best first, each with the extra index that has it (None: the
    configured ones).
    """
    download_mb: int | None = None
    """Megabytes to download, as measured."""
    disk_mb: int | None = None
    """Megabytes on disk, as measured."""
    check: str = ""
    """A Python statement that must succeed in the finished environment."""
    main: tuple[str, ...] = ()
    """Packages whose versions every record shows (empty: all that the lock pins)."""
    variant_mb: dict[str, tuple[int, int]] = {}
    """Megabytes to download and on disk, of the whole environment, where a build of `variants` makes them differ."""


class ImageRequest(Value, frozen=True):
    """What a framework asks for: an environment, a container image, or either, whichever the runtime can use."""

    environment: Environment | None = None
    """The environment, for the runtime venv and for images that llmbx builds."""
    reference: str | None = None
    """The container image, in enroot's spelling (`nvcr.io#nvidia/nemo:25.04.01`), or a file."""
    digest: str | None = None
    """The image's digest, which what is fetched must have."""
    repositories: tuple[str, ...] = ()
    """Gated repositories of the model hub that the ranks will read; access is proved before the start."""
    accept_change: bool = False
    """Core's, from `--accept-image-change`: admits an image that is not the one first seen."""


class Image(Value, frozen=True):
    """What the runtime made of the request: where it lies and what proves it."""

    kind: str
    """What it is, in the runtime's word (venv, sif, docker)."""
    reference: str
    """The name by which it was asked for."""
    python: str
    """The interpreter to start programs with, as seen inside the runtime: the first word of a rank's argv."""
    path: str | None = None
    """Its file or folder, where it has one."""
    digest: str | None = None
    """What proves its content."""
    versions: dict[str, str] = {}
    """Versions of what is in it, for the record."""
