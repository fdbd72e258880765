"""Reject what no script can express, before a run has a folder: variable names, mounts, launcher settings."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UsageError
from ..launchers.script import check_variable
from ..model import RunSpec
from ..plugins.manager import Plugins
from ..runtimes.container_env import parse_mount


def check_startable(spec: RunSpec, plugins: Plugins, environ: Mapping[str, str]) -> None:
    """Raise `UsageError` for an invalid variable, mount or launcher setting of the user or the cluster profile."""
    for name, value in spec.env.items():
        try:
            check_variable(name, value)
        except UsageError as error:
            raise UsageError(f"{spec.origins.get(f'env.{name}', 'env')}: {error}") from None
    for text in spec.mounts:
        parse_mount(text)
    launcher = plugins.launchers().get(spec.launcher)
    if check_spec := getattr(launcher, "check_spec", None):
        check_spec(spec, environ)
