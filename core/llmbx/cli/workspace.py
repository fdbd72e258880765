"""What a verb works with: plugins, configuration and install."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..config.install import Install, absolute, find_install
from ..config.plugin_settings import join
from ..config.profiles import Config, Merged, Profile, choose_profile, load_config
from ..config.request import STAGE_PATH_NOTE, Request
from ..errors import UsageError
from ..model import Expected, Finding, Recipe, Result, RunSpec
from ..model.launch import AUTO
from ..phrases import did_you_mean
from ..plugins.manager import Plugins, load

if TYPE_CHECKING:
    from ..record.folder import Run


@dataclasses.dataclass(frozen=True)
class Workspace:
    """Plugins, configuration and install: the environment in which a verb runs."""

    plugins: Plugins
    config: Config
    cluster_files: dict[str, str]
    install: Install

    @staticmethod
    def install_and_plugins() -> tuple[Install, Callable[[], Plugins]]:
        """The install and a function that loads the plugins: a verb that only reads files starts faster."""
        return install_and_plugins()

    def resolve(self, request: Request) -> RunSpec:
        """The specification of the requested run. Raises `UsageError` if it cannot be resolved."""
        from ..resolve import resolve

        spec = resolve(request, self.plugins, self.config, self.cluster_files, os.environ, self.install.root)
        _require_known("launcher", spec, self.plugins.launchers())
        _require_known("runtime", spec, [*self.plugins.runtimes(), AUTO])
        return spec

    def profiled_again(self, spec: RunSpec, recipe: Recipe, request: Request) -> RunSpec:
        """The specification of an earlier run of this recipe with the profile of the request. Raises `UsageError`."""
        from ..resolve.numbering import first_number
        from ..resolve.profiled import again

        return again(spec, recipe, request, os.environ, self.plugins, first_number(spec, self.plugins))

    def findings(self, spec: RunSpec) -> list[Finding]:
        """Every rule that the specification breaks."""
        from ..run.context import findings

        return findings(spec, self.plugins.framework(spec.plugin))

    def expected(self, spec: RunSpec, findings: Sequence[Finding] = ()) -> tuple[Expected, list[Finding]]:
        """What the run is expected to measure, and a finding if it needs more memory than the GPU has.

        Nothing is predicted for a run with errors among its `findings`. No warning is given about work that others have
        published: it has run, with nearly this memory.
        """
        from ..catalog.hardware import GpuType, find
        from ..run.expectation import expected, memory_findings

        if not all(finding.warning for finding in (*spec.findings, *findings)):
            return Expected(unknown_because="the configuration is not valid"), []
        prediction = expected(spec, self.plugins, self.install)
        gpu = find(spec.gpu_type, GpuType.extend(self.config.gpus))
        needs = memory_findings(spec, prediction, gpu.memory_gb if gpu else None)
        published = spec.exact_row(self.plugins.workload(spec.workload, spec.plugin)) is not None
        return prediction, [need for need in needs if not (need.warning and published)]

    def without_suspects(self, spec: RunSpec, occasion: str) -> tuple[RunSpec, list[str]]:
        """The specification without the nodes that plugins suspect, and a line for the user about each."""
        from ..run.retry import without_suspects

        return without_suspects(spec, self.plugins, self.install, occasion)

    def profile(self, request: Request | None = None) -> Profile | None:
        """The cluster profile of the request, else the default one; None if there is none."""
        return choose_profile(self.config, self.cluster_files, request.cluster if request else None)

    def exit_code(self, results: Sequence[Result], spec: RunSpec, allowed: float, say: bool = True) -> int:
        """The exit code for the results of one run or of its repeats; `say`: print how they compare with the published
        figure.

        `allowed` is the tolerated slowdown (a fraction). The mean of an unstable window is never called too slow.
        """
        from ..model.result import exit_code
        from .published import against_published, decided

        codes = {exit_code(result) for result in results} or {0}
        for code in (130, 4, 1):
            if code in codes:
                return code
        workload = self.plugins.workload(spec.workload, spec.plugin)
        if any(not decided(result, spec, workload) for result in results):
            return 5
        judged = against_published(results, spec, workload, self, allowed)
        if judged is None:
            return 0
        if say:
            click.echo(judged.sentence, err=True)
        return 3 if judged.verdict == "slower" else 0

    def find_run(self, text: str) -> Run:
        """The run that `text` names. Raises `UsageError` if no run or several match."""
        return self.plugins.find_run(self.install, text)

    def launcher_settings(self, request: Request, launcher: str) -> dict[str, Any]:
        """The settings of the launcher's plugin for this request, from profile, environment and options."""
        return self.plugin_settings(self.plugins.settings_of(launcher), request)

    def plugin_settings(self, plugin: str, request: Request | None = None) -> dict[str, Any]:
        """The settings of a plugin without a run, from profile, environment and the options of `request`."""
        kind = self.plugins.settings.get(plugin)
        if kind is None:
            return {}
        options, set_keys = request.plugin_settings.get(plugin, {}) if request else {}, self.plugins.set_keys
        return join(kind, self.profile(request), os.environ, options, set_keys=set_keys.get(plugin, ())).values


def _require_known(what: str, spec: RunSpec, names: Collection[str]) -> None:
    """Raise `UsageError`, with the origin of the name, if no plugin provides the launcher or runtime."""
    name = getattr(spec, what)
    if name not in names:
        raise UsageError(f"{spec.origins[what]}: no {what} named '{name}'{did_you_mean(name, names)}")


def install_and_plugins() -> tuple[Install, Callable[[], Plugins]]:
    """The install and a function that loads the plugins: a verb that only reads files starts faster without them."""
    config, _ = configuration()
    install = find_install(os.environ, config.install, config.install_file)
    install.share()
    return install, load


def configuration() -> tuple[Merged, dict[str, str]]:
    """The configuration and the file of each cluster; says which files of other folders are used and ignored."""
    config, cluster_files = load_config()
    for note in config.notes:
        click.echo(f"llmbx: note: {note}", err=True)
    if config.project_file:
        click.echo(f"llmbx: using {config.project_file}", err=True)
    return config, cluster_files


def load_workspace(output: Path | None = None) -> Workspace:
    """Load plugins and configuration; `output` is the folder for the runs, if it is not in the install.

    Prints a note if the obsolete variable `STAGE_PATH` is set.
    """
    if os.environ.get("STAGE_PATH"):
        click.echo(f"llmbx: note: {STAGE_PATH_NOTE}", err=True)
    config, cluster_files = configuration()
    install = find_install(os.environ, config.install, config.install_file)
    if output is not None:
        install = install.replace(workload_root=absolute(str(output), "--output"), workload_origin="--output")
    install.share()
    return Workspace(load(), config, cluster_files, install)


def path_or_run(path: Path) -> Path:
    """A path as it is if it exists, has several parts or is `-`, else the folder of the run that it names.

    Raises `UsageError` if it is neither.
    """
    if path.exists() or len(path.parts) > 1 or str(path) == "-":
        return path
    install, plugins = install_and_plugins()
    try:
        return plugins().find_run(install, str(path)).path
    except UsageError as error:
        raise UsageError(f"{path}: no such file or folder, and {error}") from None
