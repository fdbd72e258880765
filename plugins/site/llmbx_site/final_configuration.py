"""Build the framework's final configuration on this machine's CPU, without training."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import click

from llmbx.api import (
    ConfigurationProgram,
    Image,
    ImageRequest,
    InfraError,
    RunSpec,
    UsageError,
    write_atomic,
)
from llmbx.api.verbs import Plugins, Workspace, read_final
from llmbx.entry.secrets import is_secret

FINAL = "configs/final.json"
"""The file that a run and a `ConfigurationProgram` write."""

REFUSED = 2
"""Exit code of a `ConfigurationProgram` whose framework refuses the specification."""

NO_IMAGE = Image(kind="none", reference="none", python="python3")
"""Image of a launch that is not started."""


def build_final(spec: RunSpec, workspace: Workspace, source: Path | None = None) -> dict[str, Any]:
    """Build the final configuration of a run, by flat key; with `source`, by this source tree.

    Raises `UsageError` if the framework cannot do this, `InfraError` if the environment cannot be
    built or the program fails.
    """
    framework = workspace.plugins.framework(spec.plugin)
    program = framework.configuration_program(spec)
    if program is None:
        raise UsageError(
            f"plugin '{spec.plugin}' cannot build a configuration without training: "
            "use --run with a run's id"
        )
    argv = _arguments(program, source)
    with tempfile.TemporaryDirectory(prefix="llmbx-configuration-") as folder:
        for name, content in program.files.items():
            write_atomic(Path(folder, name), content, durable=False)
        if argv:
            _start(argv, program, _environment(program, workspace), Path(folder))
        built = read_final(Path(folder))
    if built is None:
        raise UsageError(f"plugin '{spec.plugin}': its configuration program wrote no {FINAL}")
    return dict(sorted({**built.final, **launch_values(spec, workspace.plugins)}.items()))


def _arguments(program: ConfigurationProgram, source: Path | None) -> list[str]:
    """The program's arguments, those for a source tree if there is one."""
    if source is None:
        return [*program.argv]
    if not program.checkout:
        raise UsageError("--source: the configuration of this run is not built from a source tree")
    return [part.format(source=source.absolute()) for part in program.checkout]


def launch_values(spec: RunSpec, plugins: Plugins) -> dict[str, Any]:
    """Return what the framework's launch sets: nodes, ranks and environment, as flat keys.

    Secrets and llmbx's own variables are left out.
    """
    launch = plugins.framework(spec.plugin).build_command(spec, NO_IMAGE)
    variables = {
        f"launch.env.{name}": value
        for phase in launch.phases
        for name, value in phase.env.items()
        if not (name.startswith("LLMBX_") or is_secret(name))
    }
    return {
        "launch.nodes": launch.nodes,
        "launch.ntasks_per_node": launch.ranks_per_node,
        **variables,
    }


def _environment(program: ConfigurationProgram, workspace: Workspace) -> Image:
    """Prepare the program's environment with the settings of the cluster profile."""
    for runtime in workspace.plugins.runtimes().values():
        if not runtime.builds_environments:
            continue
        settings = {runtime.plugin: workspace.plugin_settings(runtime.plugin)}
        request = ImageRequest(environment=program.environment, plugin_settings=settings)
        install = workspace.install.path
        return runtime.prepare(request, install, lambda line: click.echo(line, err=True))
    raise UsageError(
        "no runtime that builds environments is installed: enable one, or use --run with a run's id"
    )


def _start(argv: list[str], program: ConfigurationProgram, image: Image, folder: Path) -> None:
    """Run the program. An error has the last line of its stderr."""
    done = subprocess.run(
        [image.python, *argv],
        cwd=folder,
        env={**os.environ, **program.env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no error message"]
        kind = UsageError if done.returncode == REFUSED else InfraError
        reference = image.reference
        raise kind(f"the configuration cannot be built in {reference}: {lines[-1].strip()}")
