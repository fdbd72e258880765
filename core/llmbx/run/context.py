"""Choose the plugins that one run uses, and check the run against the rules."""

from __future__ import annotations

import dataclasses
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from ..catalog.environments import unverified
from ..catalog.hardware import builtin
from ..config.plugin_settings import current_settings
from ..errors import LlmbxError, UsageError
from ..model import Finding, ImageRequest, RunSpec
from ..phrases import plural
from ..resolve.profiler_choice import replaced_profiler, usable_profiler
from ..resolve.rules import common_findings

if TYPE_CHECKING:
    from ..config.install import Install
    from ..launchers.base import Launcher
    from ..plugins.framework import Framework
    from ..plugins.manager import Plugins
    from ..record.folder import Run
    from ..runtimes.base import Runtime


@dataclasses.dataclass(frozen=True)
class RunContext:
    """The plugins that one run uses, and the install that it writes to."""

    plugins: Plugins
    framework: Framework
    runtime: Runtime
    launcher: Launcher
    install: Install

    @classmethod
    def enter(cls, spec: RunSpec, plugins: Plugins, install: Install, preview: bool = False) -> tuple[RunSpec, Self]:
        """Choose the runtime, the launcher and the profiler of a run: the specification that names them, the context.

        With `preview` the runtime need not work on this machine. Raises `UsageError` if the runtime or launcher cannot
        be used for this run, `InfraError` if no runtime works here.
        """
        from ..runtimes.select import choose_runtime

        framework = plugins.framework(spec.plugin)
        request = framework.prepare_image(spec)
        launcher = plugins.launcher(spec.launcher).inside(spec)
        name, reason = choose_runtime(spec, request, launcher, plugins.runtimes(), preview)
        origin = spec.origins.get("runtime", "") if spec.runtime == name else reason
        origins = {**spec.origins, "runtime": origin}
        spec = spec.replace(runtime=name, repositories=request.repositories, origins=origins)
        spec = usable_profiler(spec, plugins)
        return spec, cls(plugins, framework, plugins.runtime(name), launcher, install)

    @classmethod
    def of(cls, run: Run, plugins: Plugins, install: Install) -> Self:
        """Return the context of a run that was started before, with the plugins recorded then."""
        spec = run.record.spec
        launcher = plugins.launcher(spec.launcher)
        return cls(plugins, plugins.framework(spec.plugin), plugins.runtime(spec.runtime), launcher, install)

    def wanted_image(self, spec: RunSpec) -> ImageRequest:
        """Return the framework's image request, with `--accept-image-change` and the runtime plugin's settings."""
        bare = self.framework.prepare_image(spec)
        settings = runtime_settings(spec, self.runtime, self.plugins)
        gpu = builtin().get(spec.gpu_type)
        request: ImageRequest = bare.replace(
            machine=gpu.machine if gpu else None,
            accept_change=spec.accept_image_change,
            plugin_settings=settings,
        )
        return request


def runtime_settings(spec: RunSpec, runtime: Runtime, plugins: Plugins) -> dict[str, dict[str, Any]]:
    """Return the settings of the runtime's plugin, for its image request."""
    kind = plugins.settings.get(runtime.plugin)
    return {runtime.plugin: current_settings(spec, kind, os.environ)} if kind else {}


def findings(spec: RunSpec, framework: Framework) -> list[Finding]:
    """Return every rule violation of the specification: common rules, then the framework's, then the profilers'.

    A warning is added if the environment's packages cannot be verified, and if another profiler than the first is used.
    """
    own = [*framework.check_spec(spec), *framework.check_profilers(spec), *replaced_profiler(spec, framework.plugins)]
    return [*common_findings(spec), *own, *_unverified(spec, framework)]


def _unverified(spec: RunSpec, framework: Framework) -> list[Finding]:
    """A warning if the run's environment has packages whose files have no digest in the lock."""
    with suppress(LlmbxError):  # `enter` reports the error
        environment = framework.prepare_image(spec).environment
        if environment and (lock := unverified(environment)):
            problem = f"the lock of the environment {lock} has no digests, so its packages are not verified"
            return [Finding(rule="digests", problem=problem, fix="add the table `files` to the lock", warning=True)]
    return []


def admit(spec: RunSpec, findings: list[Finding], force: bool) -> RunSpec:
    """Return the specification if its findings allow it to run.

    With `force`, errors are recorded in `spec.forced` instead. Raises `UsageError` with all errors otherwise.
    """
    errors = [finding for finding in findings if not finding.warning]
    if not errors:
        return spec
    if force:
        return spec.replace(forced=tuple(dict.fromkeys(finding.rule for finding in errors)))
    lines = [f"  {finding.problem}; {finding.fix}" for finding in errors]
    count = plural(len(errors), "problems")
    raise UsageError("\n".join([f"{spec.workload} {spec.size} cannot run ({count}; --force overrides):", *lines]))
