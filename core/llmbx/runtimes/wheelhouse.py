"""The wheels of an environment, for a machine that has to build it without a network."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InfraError
from ..model import Environment
from . import environment_store as store
from .base import Progress
from .children import follow
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
    pip = pip_command(str(where.python.resolve()), str(where.python))
    env = pip_environment(os.environ, temporary)
    own = install / "wheels"
    sources = ["--find-links", str(own)] if own.is_dir() else []
    extra = sorted({index for builds in environment.variants.values() for _, index in builds if index})
    sources += [part for index in extra for part in ("--extra-index-url", index)]
    pins = [f"{name}=={version}" for name, version in marker.packages.items()]
    progress(f"environment {where.label}: fetching the wheels of its {len(pins)} packages")
    lines: list[str] = []
    argv = [*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), *sources, *pins]
    if pins and follow(argv, env, temporary, lines.append) != 0:
        why = explain_failure(lines, configured_places(pip, env), own, offline=False)
        raise InfraError(f"environment {where.label}: {why}")
    return sorted(folder.glob("*.whl"))


def _finished(environment: Environment, install: Path) -> tuple[store.Place, store.Marker]:
    for minor in preference(environment.pythons):
        where = store.place(environment, install, minor)
        if marker := store.read_marker(where):
            return where, marker
    raise InfraError(f"environment {environment.name} is not built in {install}")
