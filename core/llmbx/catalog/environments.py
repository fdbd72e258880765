"""Read environment locks: TOML files with the packages to install, their order, and the supported interpreters.

The keys are the fields of `model.Environment`. TOML has no null, so a variant from the configured indexes is written
with an empty index::

    name = "toy-cpu"
    pythons = ["3.11", "3.12"]
    steps = [["torch==2.13.0", "numpy==2.3.5"], ["toy==1.0"]]
    no_deps = [1]
    download_mb = 320
    disk_mb = 1250
    check = "import toy"
    main = ["torch", "toy"]

    [variants]
    "torch==2.13.0" = [["torch==2.13.0+cpu", ""], ["torch==2.13.0", ""]]

    [variant_mb]
    "torch==2.13.0" = [2900, 4800]

    [files]
    "numpy-2.3.5-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl" = "sha256:..."

`llmbx env lock` writes such files. A lock for several platforms lists what all of them install in `steps`, and the rest
by platform; what is built from source is in a later step, with what the build needs::

    steps = [["setuptools==84.2.1", "toy==1.0"], ["toy-kernels==1.0"]]
    cuda = 13

    [platforms]
    linux-x86_64 = ["triton==3.7.1"]
    linux-aarch64 = []

    [needs]
    "toy-kernels==1.0" = ["nvcc", "cudnn.h"]

    [build_env]
    TOY_FORCE_BUILD = "1"

With the table `files`, exactly these files are installed and each is verified. It must have a file of every requirement
and of every build. Nothing is built in isolation then, because that would download build tools that are not verified:
an earlier step installs what a source archive needs (usually setuptools).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..model import Environment, ImageRequest, RunSpec
from ..model.packages import SUFFIX, Pin
from ..phrases import did_you_mean
from ..toml_file import convert, parse_toml_bytes, read_bytes

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_PYTHON = re.compile(r"3\.\d+")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PLATFORM = re.compile(r"linux-(?:x86_64|aarch64)")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[\w,. -]*\])?==([A-Za-z0-9.!+_-]+)")


def load_environment(path: Path | Traversable, whole: bool = False) -> Environment:
    """Read the environment lock in the file `path`, for this machine's platform if the lock has it.

    With `whole` it has all its platforms. Raises `UsageError` with the file name for unknown keys, requirements that
    are not exact pins, and references to steps or variants that are not in the lock.
    """
    loaded = _checked(read_bytes(path), str(path))
    return loaded if whole else for_platform(loaded, Environment.this_platform())


@functools.lru_cache(maxsize=64)
def _checked(data: bytes, source: str) -> Environment:
    """The lock in a file with this content: a sweep, a list or a prediction of all recipes asks for one many times."""
    environment = convert(parse_toml_bytes(data, source), Environment, source)
    if problem := _problem(environment):
        raise UsageError(f"{source}: {problem}")
    variants = {
        requirement: tuple((build, index or None) for build, index in builds)
        for requirement, builds in environment.variants.items()
    }
    checked: Environment = environment.replace(variants=variants)
    return checked


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


def _problem(environment: Environment) -> str | None:
    """The first inconsistency in the lock, or None."""
    listed = [requirement for step in (*environment.steps, *environment.platforms.values()) for requirement in step]
    built = [build for variant in environment.variants.values() for build, _ in variant]
    if not _NAME.fullmatch(environment.name):
        return f"name '{environment.name}' may only contain lower-case letters, digits, '.', '_' and '-'"
    if not environment.pythons or not all(map(_PYTHON.fullmatch, environment.pythons)):
        return 'pythons must list at least one Python version such as "3.11"'
    further = [requirement for packages in environment.variant_packages.values() for requirement in packages]
    for requirement in (*listed, *built, *further):
        if not _PIN.fullmatch(requirement):
            return f"'{requirement}' is not an exact pin (NAME==VERSION)"
    for number in environment.no_deps:
        if not 0 <= number < len(environment.steps):
            return f"no_deps: there is no step {number} (there are {len(environment.steps)} steps, counted from 0)"
    for requirement in environment.variants:
        if requirement not in listed:
            return f"variants: no step installs '{requirement}'{did_you_mean(requirement, listed)}"
    for name in environment.platforms:
        if not _PLATFORM.fullmatch(name):
            return f"platforms: '{name}' is neither linux-x86_64 nor linux-aarch64"
    for requirement in environment.needs:
        if requirement not in listed:
            return f"needs: no step installs '{requirement}'{did_you_mean(requirement, listed)}"
    packages = {Pin.of(requirement)[0] for requirement in listed}
    for name in environment.main:
        if Pin.normal_name(name) not in packages:
            return f"main: no step installs '{name}'{did_you_mean(Pin.normal_name(name), packages)}"
    for table in ("variant_mb", "variant_packages"):
        for build in getattr(environment, table):
            if build not in built:
                return f"{table}: '{build}' is not a variant{did_you_mean(build, built)}"
    plain = [requirement for requirement in listed if requirement not in environment.variants]
    return _files_problem(environment.files, [*plain, *built, *further]) if environment.files else None


def _files_problem(files: Mapping[str, str], requirements: Sequence[str]) -> str | None:
    """The first file with a bad digest or of another package, or the first requirement without a file; else None."""
    packages = {name: Pin.in_file(name) for name in files}
    required = {Pin.of(requirement): requirement for requirement in requirements}
    for name, digest in files.items():
        if not SUFFIX.search(name):
            return f"files: '{name}' is neither a wheel nor a source archive (.whl, .tar.gz, .zip)"
        if not _DIGEST.fullmatch(digest):
            return f"files: the digest of '{name}' must be sha256: and 64 hexadecimal digits"
        if packages[name] not in required:
            return f"files: no step installs '{name}'"
    covered = set(packages.values())
    missing = next((requirement for pin, requirement in required.items() if pin not in covered), None)
    return (
        f"files: no file of '{missing}'; the table must cover every requirement and every variant" if missing else None
    )
