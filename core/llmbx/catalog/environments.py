"""Read environment locks, and choose those that a run needs. The plugin that builds them checks what they state."""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import Environment, ImageRequest, RunSpec
from ..toml_file import convert, parse_toml_bytes, read_bytes

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def load_environment(path: Path | Traversable, whole: bool = False) -> Environment:
    """Read the environment lock in the file `path`, for this machine's platform if the lock has it.

    With `whole` it has all its platforms. Raises `UsageError` with the file name for unknown keys and values of the
    wrong type; what contradicts itself is refused when the environment is built.
    """
    loaded = _read(read_bytes(path), str(path))
    return loaded if whole else for_platform(loaded, Environment.this_platform())


@functools.lru_cache(maxsize=64)
def _read(data: bytes, source: str) -> Environment:
    """The lock in a file with this content: a sweep, a list or a prediction of all recipes asks for one many times."""
    environment = convert(parse_toml_bytes(data, source), Environment, source)
    variants = {
        requirement: tuple((build, index or None) for build, index in builds)
        for requirement, builds in environment.variants.items()
    }
    return environment.replace(variants=variants)


def for_platform(environment: Environment, name: str) -> Environment:
    """The environment as it is installed on the platform `name`: its packages are in the first step.

    An environment that is not for that platform is returned as it is.
    """
    if not environment.platforms.get(name):
        return environment
    first, *others = environment.steps or ((),)
    chosen: Environment = environment.replace(
        steps=((*first, *environment.platforms[name]), *others), platforms=dict.fromkeys(environment.platforms, ())
    )
    return chosen


def needed(spec: RunSpec, package: str) -> ImageRequest:
    """What a run needs: without a GPU an environment (of `package`'s locks), else the recipe's image or environments.

    The recipe's image is for GPUs: without a GPU, only an image set by the user replaces the environment.
    """
    without_gpu = spec.gpu_type == "cpu"
    names = (spec.environment,) if without_gpu else spec.gpu_environments
    folder = resources.files(package) / "environments"
    environments = [load_environment(folder / f"{name}.toml") for name in names if name]
    image = spec.image
    if without_gpu and environments and image and image.source != "--image":
        image = None
    return ImageRequest(
        environment=environments[0] if environments else None,
        alternatives=tuple(environments[1:]),
        reference=image.reference if image else None,
        digest=image.digest if image else None,
    )


def unverified(environment: Environment) -> str | None:
    """The name of the environment, or of its base, that installs packages without digests; None if there is none."""
    if any(environment.steps) and not environment.files:
        return environment.name
    return unverified(environment.base) if environment.base else None
