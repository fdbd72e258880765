"""Resolve and render a run without starting, fetching or writing anything."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmbx.api import Image, Launch, RunSpec, Scalar, Wrapping
from llmbx.api.contract import preview_text
from llmbx.api.verbs import Install, Request, Runner, load_config, load_plugins, resolve

INSTALL = "/install"
"""The install of a preview; constant, so that golden files are the same on every machine."""


@dataclasses.dataclass(frozen=True)
class Preview:
    """A rendered run, as `--dry-run --verbose` shows it."""

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
    """The output of `--dry-run --verbose`."""


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

    `settings` are `--set` values; `request` may have every field of `llmbx.api.verbs.Request`
    (plugin, size, dtype, gpu_type, gpus, steps, window, runtime, launcher, profile_steps …).
    `environ` is the command's environment (None: empty); the only `llmbx.toml` that is read is the
    one that its LLMBX_CONFIG names. Raises `UsageError` as the command does.
    """
    variables = {"LLMBX_CONFIG": os.devnull, **(environ or {})}
    requested = Request(
        workload=workload,
        settings={key: str(value) for key, value in (settings or {}).items()},
        env=dict(env or {}),
        **request,
    )
    config, clusters = load_config(variables)
    return resolve(requested, load_plugins(), config, clusters, variables, install)


def render_spec(spec: RunSpec, force: bool = False) -> Preview:
    """Render launch and script with the run's profilers, runtime and launcher.

    Raises `UsageError` for broken rules, unless `force` is set.
    """
    install = Install(root=INSTALL, origin="test")
    spec, runner = Runner.enter(spec, load_plugins(), install, preview=True)
    findings = runner.findings(spec)
    spec = runner.admit(spec, findings, force)
    image, folder, run = runner.plan(spec)
    text = preview_text(spec, image, folder, run, findings, os.environ)
    return Preview(spec, image, folder, run.launch, run.wrappings, run.script, text)
