"""Resolve and render a run without starting, fetching or writing anything."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..cli.preview import preview
from ..config.install import Install
from ..config.profiles import load_config
from ..config.request import Request
from ..model import Image, Launch, RunSpec, Scalar, Wrapping
from ..plugins.manager import load
from ..resolve import resolve
from ..run.context import admit, enter, findings
from ..run.launch import plan

INSTALL = "/install"
"""The install of a preview; constant, so that golden files are the same on every machine."""


@dataclasses.dataclass(frozen=True)
class Preview:
    """A rendered run, as `--dry-run` shows it."""

    spec: RunSpec
    """The specification, with the chosen runtime."""
    image: Image
    """The image as the runtime plans it."""
    folder: Path
    """The run folder."""
    launch: Launch
    """The launch, with the prefixes of the profilers."""
    wrappings: tuple[Wrapping, ...]
    """The runtime's wrapping of each phase."""
    script: str
    """The launcher's script."""
    text: str
    """The output of `--dry-run`."""


def resolve_spec(
    workload: str,
    *,
    settings: Mapping[str, Scalar] | None = None,
    env: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    install: str | None = INSTALL,
    **request: Any,
) -> RunSpec:
    """Return the specification that `llmbx run WORKLOAD` would have.

    `settings` are `--set` values; `request` may have every field of `llmbx.config.request.Request` (plugin, size,
    dtype, gpu_type, gpus, steps, window, runtime, launcher, profile_steps …). `environ` is the command's environment
    (None: empty); the only `llmbx.toml` that is read is the one that its LLMBX_CONFIG names. Raises `UsageError` as the
    command does.
    """
    known = {"LLMBX_CONFIG": os.devnull, **(environ or {})}
    requested = Request(
        workload=workload,
        settings={key: str(value) for key, value in (settings or {}).items()},
        env=dict(env or {}),
        **request,
    )
    config, clusters = load_config(known)
    return resolve(requested, load(), config, clusters, known, install)


def render_spec(spec: RunSpec, force: bool = False) -> Preview:
    """Render launch and script with the run's profilers, runtime and launcher.

    Raises `UsageError` for broken rules, unless `force` is set.
    """
    install = Install(root=INSTALL, origin="test")
    spec, context = enter(spec, load(), install, preview=True)
    found = findings(spec, context.framework)
    spec = admit(spec, found, force)
    image, folder, rendered = plan(spec, context)
    text = preview(spec, image, folder, rendered, found, os.environ)
    return Preview(spec, image, folder, rendered.launch, rendered.wrappings, rendered.script, text)
