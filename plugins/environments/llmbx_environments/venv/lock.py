"""Make an environment lock from what was resolved for each platform, and write it as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from llmbx.api import Environment, UsageError, Value

from ..lock_file import Pin
from . import cuda
from .resolution import Package

Resolved = Mapping[str, Sequence[Package]]
"""The packages of every platform."""


class Builds(Value, frozen=True):
    """Packages that are built from source, each with what its build needs; `env`: variables."""

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
    """The lock of all platforms: what all have in steps, the last for what is built, and the rest.

    Raises `UsageError` if a package that is built is not the same on all platforms.
    """
    pins = {
        platform: {package.pin for package in packages} for platform, packages in resolved.items()
    }
    common = sorted(set.intersection(*pins.values()))
    names = {pin: Pin.of(pin)[0] for pin in common}
    built = tuple(pin for pin in common if names[pin] in builds.needs)
    for package in sorted(set(builds.needs) - set(names.values())):
        reason = "it must be required, in the same version on all platforms"
        raise UsageError(f"--build {package}: {reason}")
    plain = tuple(pin for pin in common if pin not in built)
    return Environment(
        name=name,
        pythons=(python,),
        steps=(plain, built) if built else (plain,),
        no_deps=(0, 1) if built else (0,),
        download_mb=_megabytes(resolved),
        check=check,
        main=tuple(package for package in main if package in names.values()),
        variants=_variants(resolved),
        files=_files(resolved, builds),
        platforms={
            platform: tuple(sorted(listed - set(common))) for platform, listed in pins.items()
        },
        cuda=_cuda(pins),
        needs={pin: needs for pin in built if (needs := builds.needs[names[pin]])},
        build_env=dict(sorted(builds.env.items())),
    )


def text(lock: Environment, comment: str) -> str:
    """The lock as TOML, after a comment of one line; the same for the same lock."""
    lines = [f"# {re.sub(r'[^ -~]', '?', comment)}", ""]
    lines += [f"{key} = {_toml(getattr(lock, key))}" for key in ("name", "pythons", "no_deps")]
    for key in ("download_mb", "cuda", "check", "main"):
        if value := getattr(lock, key):
            lines.append(f"{key} = {_toml(value)}")
    lines.append("steps = [")
    for step in lock.steps:
        lines += ["    [", *_items(step, 8), "    ],"]
    lines.append("]")
    tables: dict[str, Mapping[str, object]] = {
        "platforms": lock.platforms,
        "variants": {
            pin: [[build, index or ""] for build, index in builds]
            for pin, builds in lock.variants.items()
        },
        "needs": lock.needs,
        "build_env": lock.build_env,
        "files": lock.files,
    }
    for title, table in tables.items():
        if table:
            lines += ["", f"[{title}]", *(_entry(key, value) for key, value in table.items())]
    return "\n".join(lines) + "\n"


def differences(resolved: Resolved) -> list[str]:
    """One line for each platform that has packages which another one does not have."""
    names = {
        platform: {package.name for package in packages} for platform, packages in resolved.items()
    }
    shared = set.intersection(*names.values())
    return [
        f"only on {platform}: {', '.join(sorted(listed - shared))}"
        for platform, listed in names.items()
        if listed - shared
    ]


def require_cuda(resolved: Resolved, version: int | None) -> None:
    """Raise `UsageError` if a platform's packages are not all for CUDA `version` (None: none)."""
    target = "machines without CUDA" if version is None else f"CUDA {version}"
    for platform, packages in resolved.items():
        first = cuda.majors((package.name, package.version) for package in packages)
        for wrong in sorted(set(first) - {version}):
            mistake = f"{first[wrong]} is for CUDA {wrong}, not for {target}"
            raise UsageError(f"{platform}: {mistake}")
        if version is not None and not first:
            reason = "these versions have no such build there"
            raise UsageError(f"{platform}: no package is for {target}: {reason}")


def _cuda(pins: Mapping[str, set[str]]) -> int | None:
    """The version of CUDA that packages are for; None if it is not exactly one."""
    versions = cuda.majors(Pin.of(pin) for listed in pins.values() for pin in listed)
    return next(iter(versions)) if len(versions) == 1 else None


def _variants(resolved: Resolved) -> dict[str, tuple[tuple[str, str | None], ...]]:
    """Packages of further indexes: the configured ones are asked first, then that index."""
    further = {
        package.pin: package.index
        for packages in resolved.values()
        for package in packages
        if package.index
    }
    return {pin: ((pin, None), (pin, index)) for pin, index in sorted(further.items())}


def _files(resolved: Resolved, builds: Builds) -> dict[str, str]:
    """The digest by name of every file: wheels, and source archives of what is built."""
    files: dict[str, str] = {}
    for packages in resolved.values():
        for package in packages:
            files |= package.archives if package.name in builds.needs else package.wheels
    return dict(sorted(files.items()))


def _megabytes(resolved: Resolved) -> int | None:
    """Size of all files of the platform with the largest ones; None if it is not known."""
    totals = []
    for packages in resolved.values():
        sizes = [package.size for package in packages if package.size is not None]
        if len(sizes) < len(packages):
            return None
        totals.append(round(sum(sizes) / 1e6))
    return max(totals, default=0) or None


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
