"""A run as it would be, without starting, fetching or writing anything: the specification, the launch, the script."""

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
"""The install of a preview: always the same, so that golden files do not change from machine to machine."""


@dataclasses.dataclass(frozen=True)
class Preview:
    """What `--dry-run` shows: `text` is all that it prints.

    `spec` has the runtime that was chosen, `folder` is the run folder.
    """

    spec: RunSpec
    image: Image
    folder: Path
    launch: Launch
    wrappings: tuple[Wrapping, ...]
    script: str
    text: str


def resolve_spec(
    workload: str,
    *,
    settings: Mapping[str, Scalar] | None = None,
    env: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    install: str | None = INSTALL,
    **request: Any,
) -> RunSpec:
    """The specification that `llmbx run WORKLOAD` would have.

    `settings` are `--set` values; `request` takes every field of `llmbx.config.request.Request` (plugin, size, dtype,
    gpu_type, gpus, steps, window, runtime, launcher, profile_steps …). `environ` is the command's environment (None: an
    empty one); no `llmbx.toml` is read but the one that its LLMBX_CONFIG names. Raises `UsageError` as the command
    would.
    """
    known = {"LLMBX_CONFIG": os.devnull, **(environ or {})}
    asked = Request(
        workload=workload,
        settings={key: str(value) for key, value in (settings or {}).items()},
        env=dict(env or {}),
        **request,
    )
    config, clusters = load_config(known)
    return resolve(asked, load(), config, clusters, known, install)


def render_spec(spec: RunSpec, force: bool = False) -> Preview:
    """The launch with its profilers, in its runtime, as its launcher's script. Raises `UsageError` for broken rules."""
    install = Install(root=INSTALL, origin="test")
    spec, context = enter(spec, load(), install, preview=True)
    found = findings(spec, context.framework)
    spec = admit(spec, found, force)
    image, folder, rendered = plan(spec, context)
    text = preview(spec, image, folder, rendered, found, os.environ)
    return Preview(spec, image, folder, rendered.launch, rendered.wrappings, rendered.script, text)
