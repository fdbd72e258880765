"""What one run uses, and what it needs before it starts: rules, this machine, the model hub."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..catalog.environments import unverified
from ..catalog.hardware import GpuType
from ..catalog.workloads import CPU
from ..config.plugin_settings import current_settings
from ..errors import InfraError, LlmbxError, UsageError
from ..files import free_bytes
from ..model import Finding, ImageRequest, RunSpec
from ..model.launch import LOCAL
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
        gpu = GpuType.builtin().get(spec.gpu_type)
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


ENDPOINT = "https://huggingface.co"
PROBE = "config.json"
TIMEOUT_S = 20


def require_access(repositories: Iterable[str], environ: Mapping[str, str]) -> None:
    """Check that each repository can be read with `HF_TOKEN`. `HF_ENDPOINT` is respected.

    Raises `UsageError` with the page on which access is requested, `InfraError` if the hub cannot be reached.
    Does nothing with HF_HUB_OFFLINE=1, where the ranks read their cache.
    """
    if environ.get("HF_HUB_OFFLINE", "") not in ("", "0"):
        return
    for repository in repositories:
        _require(repository, environ)


def _require(repository: str, environ: Mapping[str, str]) -> None:
    import urllib.error
    import urllib.request

    base = environ.get("HF_ENDPOINT", ENDPOINT).rstrip("/")
    page = f"{ENDPOINT}/{repository}"
    request = urllib.request.Request(f"{base}/{repository}/resolve/main/{PROBE}", method="HEAD")
    if environ.get("HF_TOKEN"):
        request.add_header("Authorization", f"Bearer {environ['HF_TOKEN']}")
    try:
        urllib.request.urlopen(request, timeout=TIMEOUT_S).close()
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            what = "HF_TOKEN has no access to it yet" if environ.get("HF_TOKEN") else "HF_TOKEN is not set"
            raise UsageError(f"{repository} is gated and {what}: request access on {page}") from None
        if error.code == 404:
            raise UsageError(f"the hub has no repository {repository} ({page})") from None
        raise InfraError(f"the hub returned HTTP {error.code} for {repository}; try again later") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise InfraError(
            f"the hub cannot be reached for {repository}: {reason}; HF_HUB_OFFLINE=1 uses the cache"
        ) from None


def site_findings(spec: RunSpec, install: Install) -> list[Finding]:
    """Return every unmet precondition with its fix: GPUs, disk space for a checkpoint, a checkpoint to load."""
    return [*_gpus(spec), *_disk_space(spec, install), *_checkpoint(spec, install)]


def _gpus(spec: RunSpec) -> list[Finding]:
    """A run on this machine needs a GPU for each of its GPUs."""
    machine = GpuType.detect()
    if spec.launcher != LOCAL or spec.gpu_type == CPU or machine is None or spec.gpus <= machine[1]:
        return []
    problem = f"the run needs {spec.gpus} GPUs, and this machine has {machine[1]} x {machine[0]}"
    fix = f"use --gpus {machine[1]}, or a launcher for several machines"
    return [Finding(rule="local_gpus", problem=problem, fix=fix)]


def _disk_space(spec: RunSpec, install: Install) -> list[Finding]:
    facts = spec.checkpoint_facts
    if not spec.checkpoint.save or facts is None:
        return []
    free = free_bytes(install.experiments(spec.folder))
    if free is None or free >= facts.size_gb * 1e9:
        return []
    problem = f"the checkpoint takes about {facts.size_gb:g} GB and {install.root} has {free / 1e9:.0f} GB free"
    return [Finding(rule="disk", problem=problem, fix="free space, or set LLMB_INSTALL to a larger file system")]


def _checkpoint(spec: RunSpec, install: Install) -> list[Finding]:
    if spec.checkpoint.load is None:
        return []
    folder = Path(spec.checkpoint.load)
    weights = folder / "weights"
    if not any(weights.glob("*.distcp")):
        inside = any(folder.glob("*.distcp"))
        fix = f"use its parent {folder.parent}" if inside else "use the folder that contains weights/*.distcp"
        problem = f"LOAD_CHECKPOINT_PATH={folder}: there is no checkpoint in {weights}"
        return [Finding(rule="checkpoint", problem=problem, fix=fix)]
    if not folder.resolve().is_relative_to(install.path.resolve()):
        problem = f"LOAD_CHECKPOINT_PATH={folder} is not under {install.root}"
        return [
            Finding(rule="checkpoint", problem=problem, fix="move it there, so that every node and container sees it")
        ]
    return []
