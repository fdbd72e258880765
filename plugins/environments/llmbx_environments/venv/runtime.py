"""The runtime `venv`: a Python environment built from the workload's lock."""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from llmbx.api import (
    Environment,
    Finding,
    Image,
    ImageRequest,
    Launch,
    Offer,
    Phase,
    Progress,
    RunSpec,
    Runtime,
    UsageError,
    Wrapping,
    settings_of,
)

from ..lock_file import require_valid
from . import store
from .interpreters import preference
from .settings import VenvSettings

BYTECODE = "PYTHONDONTWRITEBYTECODE"


class VenvRuntime(Runtime):
    """Runs programs in a Python environment in `$LLMB_INSTALL/venvs`, built on first use."""

    name = "venv"
    summary = "a Python environment that llmbx builds from the workload's lock"

    shares_host_files = True
    builds_environments = True

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        """An offer if the workload has an environment: preferred to containers without GPUs.

        If the recipe has an image, its environment for GPU runs is used for a mini or a part of a
        model where no container tool works; for a benchmark only if the user asks for it.
        """
        if request.environment is None or (spec.image and spec.image.source == "--image"):
            return None
        if spec.gpu_type == "cpu":
            return Offer(rank=10, reason="a run without GPUs needs no container")
        if request.reference is None:
            return Offer(rank=40, reason="the recipe has no container image")
        if spec.gpu_environments and not (spec.mini or spec.proxy):
            return None
        return Offer(rank=40, reason="no container tool is available")

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The environment with its paths, and its versions if it is built already."""
        environment = requested_environment(request)
        if build := store.find_complete(environment, install):
            return store.image(environment, build.paths, build.marker)
        minor = preference(environment.pythons)[0]
        return store.image(environment, store.environment_paths(environment, install, minor), None)

    def prepare(
        self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False
    ) -> Image:
        """Return the environment; build it if needed. One that exists needs no subprocess."""
        environment = requested_environment(request)
        build = store.find_complete(environment, install)
        if build:
            with suppress(OSError):
                store.set_link(build.paths)
        else:
            from .build import ensure
            from .interpreters import find_interpreter
            from .request import BuildRequest

            interpreter = find_interpreter(preference(environment.pythons))
            settings = settings_of(request, VenvSettings)
            build = ensure(
                BuildRequest(environment, install, interpreter, progress, offline, settings)
            )
        return store.image(environment, build.paths, build.marker)

    def wrap(
        self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path
    ) -> Wrapping:
        """Add no prefix, because the argv names the environment's interpreter; enable bytecode.

        Many container images set PYTHONDONTWRITEBYTECODE. It is unset unless the run sets it,
        because without bytecode every start of a framework compiles thousands of modules.
        """
        return Wrapping() if BYTECODE in spec.env else Wrapping(host_env={BYTECODE: ""})

    def check(self, install: Path) -> Finding | None:
        """Create an empty environment in a temporary folder and start its interpreter."""
        from ..programs import last_line, run

        with tempfile.TemporaryDirectory(prefix="llmbx-venv-") as folder:
            for argv in (
                [sys.executable, "-I", "-m", "venv", "--without-pip", folder],
                [f"{folder}/bin/python", "-I", "-c", ""],
            ):
                done = run(argv)
                if done.returncode != 0:
                    return Finding(
                        rule="runtime venv",
                        problem=f"{' '.join(argv[:4])} failed: {last_line(done)}",
                        fix="install Python's venv module (Debian and Ubuntu: apt install "
                        "python3-venv)",
                    )
        return None


def requested_environment(request: ImageRequest) -> Environment:
    """The environment for the chosen version of CUDA. Raises `UsageError` if there is none."""
    if request.environment is None:
        advice = "choose a container with --runtime"
        raise UsageError(f"this workload has no environment for the runtime venv: {advice}")
    environments = (request.environment, *request.alternatives)
    for environment in environments:
        require_valid(environment, f"environment {environment.name}")
    cuda = settings_of(request, VenvSettings).cuda
    if cuda is None or request.environment.cuda is None:
        return request.environment
    for environment in environments:
        if str(environment.cuda) == cuda:
            return environment
    versions = ", ".join(str(environment.cuda) for environment in environments)
    raise UsageError(f"venv.cuda={cuda}: the recipe has environments for CUDA {versions} only")
