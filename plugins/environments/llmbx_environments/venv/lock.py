"""Make an environment lock from what was resolved for each platform, and write it as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from llmbx.api import Environment, UsageError, Value

from . import cuda
from .resolution import Package

Resolved = Mapping[str, Sequence[Package]]
"""The packages of every platform."""


class Builds(Value, frozen=True):
    """Packages that are built from source, each with what its build needs; `env`: variables of the build."""

    needs: dict[str, tuple[str, ...]] = {}
    env: dict[str, str] = {}


def environment(
    name: str,
    python: str,
    resolved: Resolved,
    builds: Builds,
    check: str = "",
    main: Sequence[str] = (),
) -> Environment:
    """The lock of all platforms: what all have in common in steps, what is built in a later one, the rest by platform.

    Raises `UsageError` if a package that is built is not the same on all platforms.
    """
    every = list(
        dict.fromkeys(package.pin for packages in resolved.values() for package in packages)
    )
    pins = {
        platform: {package.pin for package in packages} for platform, packages in resolved.items()
    }
    common = sorted(pin for pin in every if all(pin in own for own in pins.values()))
    built = [pin for pin in common if pin.partition("==")[0] in builds.needs]
    for package in sorted(builds.needs):
        if not any(pin.startswith(f"{package}==") for pin in built):
            raise UsageError(
                f"--build {package}: it must be required, in the same version on all platforms"
            )
    plain = tuple(pin for pin in common if pin not in built)
    found = cuda.majors(tuple(pin.split("==", 1)) for pin in every)  # type: ignore[misc]
    return Environment(
        name=name,
        pythons=(python,),
        steps=(plain, tuple(built)) if built else (plain,),
        no_deps=(0, 1) if built else (0,),
        download_mb=_megabytes(resolved),
        check=check,
        main=tuple(
            package for package in main if any(pin.startswith(f"{package}==") for pin in common)
        ),
        variants=_variants(resolved),
        files=_files(resolved, builds),
        platforms={platform: tuple(sorted(own - set(common))) for platform, own in pins.items()},
        cuda=next(iter(found)) if len(found) == 1 else None,
        needs={pin: needs for pin in built if (needs := builds.needs[pin.partition("==")[0]])},
        build_env=dict(sorted(builds.env.items())),
    )


def text(lock: Environment, comment: str) -> str:
    """The lock as TOML, after a comment of one line; the same for the same lock."""
    lines = [f"# {re.sub(r'[^ -~]', '?', comment)}", ""]
    lines += [f"{key} = {_toml(getattr(lock, key))}" for key in ("name", "pythons", "no_deps")]
    lines += [
        f"{key} = {_toml(value)}"
        for key in ("download_mb", "cuda", "check")
        if (value := getattr(lock, key))
    ]
    lines += [f"main = {_toml(lock.main)}"] if lock.main else []
    lines += [
        "steps = [",
        *(line for step in lock.steps for line in ("    [", *_items(step, 8), "    ],")),
        "]",
    ]
    variants = {
        key: [[build, index or ""] for build, index in builds]
        for key, builds in lock.variants.items()
    }
    tables: dict[str, Mapping[str, object]] = {
        "platforms": lock.platforms, "variants": variants, "needs": lock.needs, "build_env": lock.build_env,
        "files": lock.files,
    }  # fmt: skip
    for title, table in tables.items():
        lines += (
            ["", f"[{title}]", *(_entry(key, value) for key, value in table.items())]
            if table
            else []
        )
    return "\n".join(lines) + "\n"


def differences(resolved: Resolved) -> list[str]:
    """One line for each platform that has packages which another one does not have."""
    names = {
        platform: {package.name for package in packages} for platform, packages in resolved.items()
    }
    shared = {
        name
        for own in names.values()
        for name in own
        if all(name in each for each in names.values())
    }
    lines = []
    for platform, own in names.items():
        others = sorted(own - shared)
        lines += [f"only on {platform}: {', '.join(others)}"] if others else []
    return lines


def require_cuda(resolved: Resolved, wanted: int | None) -> None:
    """Raise `UsageError` if the packages of a platform are not all for CUDA `wanted` (None: for none)."""
    for platform, packages in resolved.items():
        found = cuda.majors((package.name, package.version) for package in packages)
        for other in sorted(set(found) - {wanted}):
            raise UsageError(
                f"{platform}: {found[other]} is for CUDA {other}, not for {_cuda(wanted)}"
            )
        if wanted is not None and not found:
            raise UsageError(
                f"{platform}: no package is for CUDA {wanted}: these versions have no such build there"
            )


def _cuda(wanted: int | None) -> str:
    return "machines without CUDA" if wanted is None else f"CUDA {wanted}"


def _variants(resolved: Resolved) -> dict[str, tuple[tuple[str, str | None], ...]]:
    """Packages of further indexes: the configured indexes are asked first, then that index."""
    further = {
        package.pin: package.index
        for packages in resolved.values()
        for package in packages
        if package.index
    }
    return {pin: ((pin, None), (pin, index)) for pin, index in sorted(further.items())}


def _files(resolved: Resolved, builds: Builds) -> dict[str, str]:
    """The digest by name of every file: wheels, and source archives of what is built."""
    found: dict[str, str] = {}
    for package in (package for packages in resolved.values() for package in packages):
        found |= package.archives if package.name in builds.needs else package.wheels
    return dict(sorted(found.items()))


def _megabytes(resolved: Resolved) -> int | None:
    """Size of all files of the platform with the largest ones; None if it is not known."""
    sizes = [[package.size for package in packages] for packages in resolved.values()]
    if any(size is None for platform in sizes for size in platform):
        return None
    return (
        max((round(sum(size or 0 for size in platform) / 1e6) for platform in sizes), default=0)
        or None
    )


def _items(values: Iterable[str], indent: int) -> list[str]:
    return [f"{' ' * indent}{_toml(value)}," for value in values]


def _entry(key: str, value: object) -> str:
    bare = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)
    if isinstance(value, tuple) and len(value) > 3:
        return "\n".join([f"{bare} = [", *_items(value, 4), "]"])
    return f"{bare} = {_toml(value)}"


def _toml(value: object) -> str:
    """A string, a number, or a list of these: the same in TOML and in JSON."""
    return json.dumps(value)
