"""The wheels of an environment, for a machine that has to build it without a network."""

from __future__ import annotations

import os
from pathlib import Path

from llmbx.catalog.environments import split_pin
from llmbx.errors import InfraError
from llmbx.model import Environment
from . import store
from llmbx.runtimes.base import Progress
from llmbx.runtimes.children import follow
from .interpreters import preference
from .pip_tool import configured_places, explain_failure, pip_command, pip_environment


def gather(environment: Environment, install: Path, folder: Path, progress: Progress) -> list[Path]:
    """Put the wheel of every package of the built `environment` into `folder`: just the versions that it holds.

    They come from pip's cache, from `$LLMB_INSTALL/wheels` or from the index, where need be built from their source.
    Raises `InfraError` for one that cannot be had, and where the environment is not built.
    """
    where, marker = _finished(environment, install)
    temporary = folder / ".tmp"
    temporary.mkdir(parents=True)
    base = pip_command(str(where.python.resolve()), str(where.python))
    env, own = pip_environment(os.environ, temporary), install / "wheels"
    pip = [*base, "wheel", "--no-deps", "--wheel-dir", str(folder)]
    pip += ["--find-links", str(own)] if own.is_dir() else []
    progress(f"environment {where.label}: fetching the wheels of its {len(marker.packages)} packages")
    for pins, indexes in _sources(environment, marker):
        lines: list[str] = []
        # An index that only one package needs is asked for that one alone, and only where the usual place has it not.
        extras = [["--extra-index-url", index] if index else [] for index in indexes]
        if all(follow([*pip, *extra, *pins], env, temporary, lines.append) != 0 for extra in extras):
            why = explain_failure(lines, configured_places(base, env), own, offline=False)
            raise InfraError(f"environment {where.label}: {why}")
    return sorted(folder.glob("*.whl"))


def _sources(environment: Environment, marker: store.Marker) -> list[tuple[list[str], list[str | None]]]:
    """Exact requirements that are fetched together, with the extra indexes to try in order (None: without one)."""
    variants = {split_pin(requirement)[0]: builds for requirement, builds in environment.variants.items()}
    pins = {name: f"{name}=={version}" for name, version in marker.packages.items()}
    plain = [pin for name, pin in pins.items() if name not in variants]
    special = [
        ([pins[name]], list(dict.fromkeys(index for _, index in builds)))
        for name, builds in variants.items()
        if name in pins
    ]
    return [(plain, [None]), *special] if plain else special


def _finished(environment: Environment, install: Path) -> tuple[store.Place, store.Marker]:
    for minor in preference(environment.pythons):
        where = store.place(environment, install, minor)
        if marker := store.read_marker(where):
            return where, marker
    raise InfraError(f"environment {environment.name} is not built in {install}")
