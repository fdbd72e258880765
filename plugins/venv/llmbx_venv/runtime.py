"""The runtime `venv`: an environment that llmbx builds from the workload's lock."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from llmbx.errors import UsageError
from llmbx.model import Environment, Finding, Image, ImageRequest, Launch, Phase, RunSpec, Wrapping
from . import store
from llmbx.runtimes.base import Offer, Progress
from .interpreters import preference

BYTECODE = "PYTHONDONTWRITEBYTECODE"


class VenvRuntime:
    """Programs run in a Python environment under `$LLMB_INSTALL/venvs`, built on first use and kept."""

    name = "venv"
    summary = "a Python environment that llmbx builds from the workload's lock"

    shares_host_files = True

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        """For a workload with an environment: before container tools where no GPU is used, after them otherwise."""
        if request.environment is None or (spec.image is not None and spec.image.source == "--image"):
            return None
        if spec.gpu_type == "cpu":
            return Offer(rank=10, reason="a run without GPUs needs no container")
        return Offer(rank=40, reason="no container tool works here")

    def available(self) -> str | None:
        """Always None: whether an interpreter fits depends on the workload's lock."""
        return None

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The environment as it will be (or, built already, as it is); touches nothing."""
        environment = _environment(request)
        finished = _finished(environment, install)
        where = finished[0] if finished else store.place(environment, install, preference(environment.pythons)[0])
        return store.image(where, environment, finished[1] if finished else None)

    def prepare(self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False) -> Image:
        """The finished environment, built if need be. A finished one is found in milliseconds, without a subprocess."""
        environment = _environment(request)
        if finished := _finished(environment, install):
            with suppress(OSError):
                store.set_link(finished[0])
            return store.image(finished[0], environment, finished[1])
        from .build import build
        from .interpreters import find_interpreter

        interpreter = find_interpreter(preference(environment.pythons))
        marker = build(environment, install, interpreter, progress, offline)
        return store.image(store.place(environment, install, interpreter.minor), environment, marker)

    def wrap(self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path) -> Wrapping:
        """Nothing goes in front: the argv names the environment's own interpreter.

        Ranks write bytecode even if the user's shell says otherwise (many container images do): the environment is
        llmbx's own, and without it every start of a framework compiles thousands of modules again.
        """
        return Wrapping() if BYTECODE in spec.env else Wrapping(host_env={BYTECODE: ""})

    def gather_wheels(self, request: ImageRequest, install: Path, folder: Path, progress: Progress) -> Sequence[Path]:
        """The wheel of every package of the built environment, in `folder`. Raises `InfraError`."""
        from .wheelhouse import gather

        return gather(_environment(request), install, folder, progress)

    def check(self, install: Path) -> Finding | None:
        """Make an empty environment in a temporary folder and start its interpreter."""
        import subprocess
        import sys
        import tempfile

        with tempfile.TemporaryDirectory(prefix="llmbx-venv-") as folder:
            for argv in ([sys.executable, "-m", "venv", "--without-pip", folder], [f"{folder}/bin/python", "-c", ""]):
                done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
                if done.returncode != 0:
                    said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
                    return Finding(
                        rule="runtime venv",
                        problem=f"{' '.join(argv[:3])} failed: {said[-1]}",
                        fix="install Python's venv module (Debian and Ubuntu: apt install python3-venv)",
                    )
        return None


def _environment(request: ImageRequest) -> Environment:
    """The environment that is asked for. Raises `UsageError` when the workload has none."""
    if request.environment is None:
        raise UsageError("this workload has no environment for the runtime venv: choose a container with --runtime")
    return request.environment


def _finished(environment: Environment, install: Path) -> tuple[store.Place, store.Marker] | None:
    """A finished build of just this lock, of the running interpreter's version if there is one."""
    for minor in preference(environment.pythons):
        where = store.place(environment, install, minor)
        if marker := store.read_marker(where):
            return where, marker
    return None
