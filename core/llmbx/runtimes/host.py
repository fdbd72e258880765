"""The runtime `host`: the program's libraries are installed where llmbx runs, for example inside an image."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..errors import InfraError
from ..model import Finding, Image, ImageRequest, Launch, Phase, RunSpec, Wrapping
from .base import Offer, Progress, Runtime


class HostRuntime(Runtime):
    """Runs programs directly with `$LLMBX_PYTHON`, or else with python3 on PATH."""

    name = "host"
    summary = "the Python of this machine or image ($LLMBX_PYTHON or python3)"

    shares_host_files = True

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        """Return an offer if LLMBX_PYTHON is set and `--image` is not used."""
        if not os.environ.get("LLMBX_PYTHON") or (spec.image is not None and spec.image.source == "--image"):
            return None
        return Offer(rank=0, reason="LLMBX_PYTHON is set")

    def available(self) -> str | None:
        """Return why there is no such Python, or None."""
        chosen = os.environ.get("LLMBX_PYTHON")
        if chosen and not shutil.which(chosen):
            return f"LLMBX_PYTHON={chosen} is not an executable program"
        return None if chosen or shutil.which("python3") else "python3 is not on PATH; set LLMBX_PYTHON"

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """Return the host as image, without checking the interpreter."""
        return Image(kind="host", reference="host", python=os.environ.get("LLMBX_PYTHON") or "python3")

    def prepare(self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False) -> Image:
        """Return the host, with path and version of its interpreter. Raises `InfraError` if it does not run."""
        import subprocess

        if reason := self.available():
            raise InfraError(f"runtime host: {reason}")
        python = shutil.which(self.plan(request, install).python) or ""
        argv = [python, "-I", "-c", "import sys; print(sys.version.split()[0])"]  # nothing of the working folder
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["no error message"]
            raise InfraError(f"runtime host: {python} does not run: {lines[-1]}")
        return Image(kind="host", reference="host", python=python, versions={"python": done.stdout.strip()})

    def wrap(self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path) -> Wrapping:
        """Return an empty wrapping: commands run as they are."""
        return Wrapping()

    def check(self, install: Path) -> Finding | None:
        """Start the interpreter."""
        try:
            self.prepare(ImageRequest(), install, lambda line: None)
        except InfraError as error:
            return Finding(rule="runtime host", problem=str(error), fix="install python3 or set LLMBX_PYTHON")
        return None
