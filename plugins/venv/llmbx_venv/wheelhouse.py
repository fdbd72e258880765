"""Collect the wheels of an environment, to build it on a machine without network access."""

from __future__ import annotations

import os
from pathlib import Path

from llmbx.api import environments
from llmbx.api import InfraError
from llmbx.api import Environment
from . import store
from llmbx.api import Progress
from llmbx.api import children
from .interpreters import preference
from .pip_tool import configured_options, explain_failure, pip_command, pip_environment


def gather(environment: Environment, install: Path, folder: Path, progress: Progress) -> list[Path]:
    """Collect the wheels of all packages of the built `environment`, in the installed versions, in `folder`.

    They come from pip's cache, from `$LLMB_INSTALL/wheels` or from the index, and are built from source if needed.
    Raises `InfraError` if a package is not available or the environment is not built.
    """
    paths, marker = _finished(environment, install)
    temporary = folder / ".tmp"
    temporary.mkdir(parents=True)
    base = pip_command(str(paths.python))
    env, own = pip_environment(os.environ, temporary), install / "wheels"
    pip = [*base, "wheel", "--no-deps", "--wheel-dir", str(folder)]
    pip += ["--find-links", str(own)] if own.is_dir() else []
    progress(f"environment {paths.label}: collecting the wheels of {len(marker.packages)} packages")
    for pins, indexes in _sources(environment, marker):
        lines: list[str] = []
        # An extra index is used only for the packages that need it, and only if the default index does not have them.
        extras = [["--extra-index-url", index] if index else [] for index in indexes]
        if all(children.follow([*pip, *extra, *pins], env, temporary, lines.append) != 0 for extra in extras):
            why = explain_failure(lines, configured_options(base, env), own, offline=False)
            raise InfraError(f"environment {paths.label}: {why}")
    return sorted(folder.glob("*.whl"))


def _sources(environment: Environment, marker: store.Marker) -> list[tuple[list[str], list[str | None]]]:
    """Exact requirements that are collected together, with the extra indexes to try in order (None: no extra index)."""
    variants = {environments.split_pin(requirement)[0]: builds for requirement, builds in environment.variants.items()}
    pins = {name: f"{name}=={version}" for name, version in marker.packages.items()}
    plain = [pin for name, pin in pins.items() if name not in variants]
    special = [
        ([pins[name]], list(dict.fromkeys(index for _, index in builds)))
        for name, builds in variants.items()
        if name in pins
    ]
    return [(plain, [None]), *special] if plain else special


def _finished(environment: Environment, install: Path) -> tuple[store.EnvironmentPaths, store.Marker]:
    for minor in preference(environment.pythons):
        paths = store.environment_paths(environment, install, minor)
        if marker := store.read_marker(paths):
            return paths, marker
    raise InfraError(f"environment {environment.name} is not built in {install}")
