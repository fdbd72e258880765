"""The runtime `host`: llmbx already runs where the program's libraries are, inside an image for example."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..errors import InfraError
from ..model import Finding, Image, ImageRequest, Launch, Phase, RunSpec, Wrapping
from .base import Offer, Progress


class HostRuntime:
    """Programs run with `$LLMBX_PYTHON`, or else with python3 on PATH, as they are."""

    name = "host"
    summary = "the Python that is here already ($LLMBX_PYTHON or python3), as inside an image"

    shares_host_files = True

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        """Where LLMBX_PYTHON says that the libraries are here."""
        if not os.environ.get("LLMBX_PYTHON") or (spec.image is not None and spec.image.source == "--image"):
            return None
        return Offer(rank=0, reason="LLMBX_PYTHON says that the libraries are here")

    def available(self) -> str | None:
        """Why there is no such Python, or None."""
        chosen = os.environ.get("LLMBX_PYTHON")
        if chosen and not shutil.which(chosen):
            return f"LLMBX_PYTHON names {chosen}, which cannot be run"
        return None if chosen or shutil.which("python3") else "python3 is not on PATH; set LLMBX_PYTHON"

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The host itself; nothing is looked at."""
        return Image(kind="host", reference="host", python=os.environ.get("LLMBX_PYTHON") or "python3")

    def prepare(self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False) -> Image:
        """The host with its interpreter's path and version. Raises `InfraError` when there is none that runs."""
        import subprocess

        if reason := self.available():
            raise InfraError(f"runtime host: {reason}")
        python = shutil.which(self.plan(request, install).python) or ""
        argv = [python, "-c", "import sys; print(sys.version.split()[0])"]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["no reason given"]
            raise InfraError(f"runtime host: {python} does not run: {said[-1]}")
        return Image(kind="host", reference="host", python=python, versions={"python": done.stdout.strip()})

    def wrap(self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path) -> Wrapping:
        """Nothing goes in front."""
        return Wrapping()

    def check(self, install: Path) -> Finding | None:
        """Start the interpreter."""
        try:
            self.prepare(ImageRequest(), install, lambda line: None)
        except InfraError as error:
            return Finding(rule="runtime host", problem=str(error), fix="install python3 or set LLMBX_PYTHON")
        return None
