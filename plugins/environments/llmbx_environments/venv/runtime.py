"""The runtime `venv`: a Python environment built from the workload's lock."""

from __future__ import annotations

from collections.abc import Sequence
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

from . import store
from .interpreters import preference

BYTECODE = "PYTHONDONTWRITEBYTECODE"


class VenvRuntime(Runtime):
    """Runs programs in a Python environment in `$LLMB_INSTALL/venvs`, which is built on first use and then reused."""

    name = "venv"
    summary = "a Python environment that llmbx builds from the workload's lock"

    shares_host_files = True
    builds_environments = True

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        """An offer if the workload has an environment: preferred to containers without GPUs, a fallback with GPUs.

        The environments that a recipe has for GPU runs are used only if the user asks for this runtime.
        """
        if request.environment is None or (
            spec.image is not None and spec.image.source == "--image"
        ):
            return None
        if spec.gpu_type == "cpu":
            return Offer(rank=10, reason="a run without GPUs needs no container")
        if spec.gpu_environments:
            return None
        return Offer(rank=40, reason="no container tool is available")

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The environment with its paths, and its versions if it is built already. Does not write anything."""
        environment = _environment(request)
        finished = _finished(environment, install)
        paths = (
            finished[0]
            if finished
            else store.environment_paths(environment, install, preference(environment.pythons)[0])
        )
        return store.image(paths, environment, finished[1] if finished else None)

    def prepare(
        self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False
    ) -> Image:
        """Return the environment; build it if needed. An existing one is found without a subprocess."""
        environment = _environment(request)
        if finished := _finished(environment, install):
            with suppress(OSError):
                store.set_link(finished[0])
            return store.image(finished[0], environment, finished[1])
        from .build import build
        from .interpreters import find_interpreter
        from .settings import VenvSettings

        interpreter = find_interpreter(preference(environment.pythons))
        settings = settings_of(request, VenvSettings)
        marker = build(environment, install, interpreter, progress, offline, settings)
        return store.image(
            store.environment_paths(environment, install, interpreter.minor), environment, marker
        )

    def wrap(
        self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path
    ) -> Wrapping:
        """Add no prefix, because the argv names the environment's interpreter; enable bytecode.

        Many container images set PYTHONDONTWRITEBYTECODE. It is unset unless the run sets it, because without bytecode
        every start of a framework compiles thousands of modules.
        """
        return Wrapping() if BYTECODE in spec.env else Wrapping(host_env={BYTECODE: ""})

    def gather_wheels(
        self, request: ImageRequest, install: Path, folder: Path, progress: Progress
    ) -> Sequence[Path]:
        """Collect the wheel of every package of the environment in `folder`. Raises `InfraError` if one is missing."""
        from .wheelhouse import gather

        return gather(_environment(request), install, folder, progress)

    def check(self, install: Path) -> Finding | None:
        """Create an empty environment in a temporary folder and start its interpreter."""
        import subprocess
        import sys
        import tempfile

        with tempfile.TemporaryDirectory(prefix="llmbx-venv-") as folder:
            for argv in (
                [sys.executable, "-I", "-m", "venv", "--without-pip", folder],
                [f"{folder}/bin/python", "-I", "-c", ""],
            ):
                done = subprocess.run(
                    argv, capture_output=True, text=True, errors="replace", check=False
                )
                if done.returncode != 0:
                    output = (done.stderr or done.stdout).strip().splitlines() or [
                        "no error output"
                    ]
                    return Finding(
                        rule="runtime venv",
                        problem=f"{' '.join(argv[:4])} failed: {output[-1]}",
                        fix="install Python's venv module (Debian and Ubuntu: apt install python3-venv)",
                    )
        return None


def _environment(request: ImageRequest) -> Environment:
    """The requested environment, for the chosen version of CUDA. Raises `UsageError` if the workload has none."""
    from .settings import VenvSettings

    if request.environment is None:
        raise UsageError(
            "this workload has no environment for the runtime venv: choose a container with --runtime"
        )
    cuda = settings_of(request, VenvSettings).cuda
    every = (request.environment, *request.alternatives)
    if cuda is None or request.environment.cuda is None:
        return request.environment
    found = next((environment for environment in every if str(environment.cuda) == cuda), None)
    if found is None:
        known = ", ".join(str(environment.cuda) for environment in every)
        raise UsageError(f"venv.cuda={cuda}: the recipe has environments for CUDA {known} only")
    return found


def _finished(
    environment: Environment, install: Path
) -> tuple[store.EnvironmentPaths, store.Marker] | None:
    """A complete build of exactly this lock, preferably for the running interpreter's version."""
    for minor in preference(environment.pythons):
        if found := store.complete(environment, install, minor):
            return found
    return None
