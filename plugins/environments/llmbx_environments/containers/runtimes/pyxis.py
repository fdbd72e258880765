"""The runtime `pyxis`: srun starts the ranks in enroot containers, so the launcher must support srun flags."""

from __future__ import annotations

import shutil
from pathlib import Path

from llmbx.api import (
    JOB_NAME,
    Finding,
    Image,
    ImageRequest,
    Launch,
    Launcher,
    Phase,
    Progress,
    RunSpec,
    Wrapping,
)

from .container import Container, planned_file, require_tool
from .enroot import SUFFIX, EnrootRuntime, file_tool

_REMOVE = ("enroot", "remove", "--force", f"pyxis_{JOB_NAME}")
"""Removes a named container: Pyxis gives it this name in enroot (pyxis_slurmstepd.c)."""


class PyxisRuntime(Container):
    """Runs programs in containers that srun starts through the Pyxis plugin."""

    name = "pyxis"
    start_failure = (
        r"(?<=error: pyxis: )(?!child \d|printing |ignoring |container was not started|\s)"
    )
    summary = "Slurm's Pyxis plugin: srun starts each rank in an enroot container"

    def works_with(self, launcher: Launcher) -> str | None:
        """None if the launcher starts ranks with srun, else the reason."""
        if launcher.flag_syntax == "srun":
            return None
        return "requires a launcher that starts ranks with srun: use --launcher slurm"

    def available(self) -> str | None:
        """None if srun supports the Pyxis flags, else the reason."""
        import subprocess

        if not shutil.which("srun"):
            return "srun is not on PATH"
        help_text = subprocess.run(
            ["srun", "--help"], capture_output=True, text=True, errors="replace", check=False
        ).stdout
        return (
            None
            if "--container-image" in help_text
            else "Slurm's Pyxis plugin is not installed (srun --help lacks --container-image)"
        )

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The squashfs file with its path in the install, whether or not it exists yet."""
        return planned_file(request, install, SUFFIX, self.name)

    def prepare(
        self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False
    ) -> Image:
        """Find the squashfs file, or import it with enroot if that is installed (login nodes may lack it)."""
        from ..images.engine import FileRequest, ensure_file

        image = self.plan(request, install)
        require_tool(self.name, EnrootRuntime().available(), image)
        return ensure_file(FileRequest(image, request, install, file_tool(), progress, offline))

    def wrap(
        self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path
    ) -> Wrapping:
        """The srun flags of one rank, as in the recipes: writable, without the home folder, PMIx.

        The container has a name of the job's own, so that each node unpacks the image only once for all steps of the
        job. Pyxis keeps named containers after the job, unless it is configured otherwise: the job removes them.
        """
        mounts = self.container_mounts(spec, launch, phase, run_dir, ":,")
        flags = (
            f"--container-image={image.path or image.reference}",
            f"--container-mounts={','.join(mount.joined() for mount in mounts)}",
            f"--container-env={','.join(self.forwarded_variables(spec, phase))}",
            f"--container-workdir={run_dir}",
            "--no-container-mount-home",
            "--container-writable",
            "--mpi=pmix",
            f"--container-name={JOB_NAME}",
        )
        return Wrapping(launcher_flags=flags, cleanup=_REMOVE)

    def check(self, install: Path) -> Finding | None:
        """Check whether srun has the plugin, without starting a job on the cluster."""
        if reason := self.available():
            fix = "ask the cluster's administrator for Pyxis"
            return Finding(rule="runtime pyxis", problem=reason, fix=fix, warning=True)
        return None
