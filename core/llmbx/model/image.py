"""Software environment of a run: what the framework requests, and what the runtime provides."""

from __future__ import annotations

import platform
from typing import Any

from .base import Value


class Environment(Value, frozen=True):
    """A Python environment that llmbx builds: its name, the supported interpreters, and the locked packages."""

    name: str
    """Name of the environment in folders and images."""
    pythons: tuple[str, ...]
    """Supported Python versions, in order of preference ("3.12")."""
    steps: tuple[tuple[str, ...], ...]
    """Installations in order, each a list of exact requirements."""
    no_deps: tuple[int, ...] = ()
    """Indices of the steps that are installed without dependencies."""
    variants: dict[str, tuple[tuple[str, str | None], ...]] = {}
    """Requirement -> accepted builds in order of preference, each with the extra package index that provides it (None:
    the configured indexes).
    """
    download_mb: int | None = None
    """Measured download size in megabytes."""
    disk_mb: int | None = None
    """Measured size on disk in megabytes."""
    check: str = ""
    """Python statement that must succeed in the finished environment."""
    main: tuple[str, ...] = ()
    """Packages whose versions are recorded for every run (empty: all locked packages)."""
    variant_mb: dict[str, tuple[int, int]] = {}
    """Build -> download size and size on disk (megabytes) of the whole environment with that build of `variants`."""
    variant_packages: dict[str, tuple[str, ...]] = {}
    """Build of `variants` -> further exact requirements that are installed with it."""
    files: dict[str, str] = {}
    """Name of a wheel or source archive -> its digest (`sha256:...`). If there are any, they cover every requirement;
    only these files are installed, and each is verified first. If there are none, files are not verified.
    """
    platforms: dict[str, tuple[str, ...]] = {}
    """Platform ("linux-x86_64") -> exact requirements that are installed there in addition, in the first step. If there
    are any platforms, the environment is built on no other one.
    """
    cuda: int | None = None
    """Major version of CUDA that the packages are built for; None: for none, or it is not known."""
    needs: dict[str, tuple[str, ...]] = {}
    """Requirement that is built from source -> programs (`nvcc`) and headers (`cudnn.h`) that must be on the machine.
    They are looked for before anything is installed.
    """
    build_env: dict[str, str] = {}
    """Environment variables of the installers, for packages that are built from source."""
    base: Environment | None = None
    """Environment whose packages can be imported, too; packages of this environment replace those of the base. Only for
    `ConfigurationProgram`, because images are built from one environment.
    """

    @staticmethod
    def this_platform() -> str:
        """This machine's platform, such as `linux-x86_64`."""
        return f"{platform.system().lower()}-{platform.machine()}"


class ImageRequest(Value, frozen=True):
    """What a framework needs: a Python environment, a container image, or either, whichever the runtime supports."""

    environment: Environment | None = None
    """The Python environment; the runtime builds it, or llmbx builds it into an image."""
    alternatives: tuple[Environment, ...] = ()
    """The same environment for other versions of CUDA; the runtime chooses."""
    reference: str | None = None
    """The container image: REGISTRY#NAME:TAG (`registry.example.com#team/train:25.04`) or a file."""
    digest: str | None = None
    """Required digest of the image."""
    repositories: tuple[str, ...] = ()
    """Gated model-hub repositories that the ranks read; access is checked before the start."""
    machine: str | None = None
    """Processor of the nodes that start the image, as `uname -m` prints it; None: that of this machine. Set by core."""
    accept_change: bool = False
    """Whether to accept an image whose digest has changed since it was first recorded. Set by core from
    `--accept-image-change`.
    """
    plugin_settings: dict[str, dict[str, Any]] = {}
    """Settings of the runtime's plugin, by plugin and field. Set by core; `settings_of` reads them."""


class Image(Value, frozen=True):
    """The environment or image that the runtime prepared for an `ImageRequest`."""

    kind: str
    """Kind of environment or image, in the runtime's own term."""
    reference: str
    """The requested name."""
    python: str
    """Python interpreter inside the runtime: the first word of a rank's command line."""
    path: str | None = None
    """File or folder of the image, if it has one."""
    digest: str | None = None
    """Digest of the content."""
    versions: dict[str, str] = {}
    """Recorded versions of the installed software, by name."""
