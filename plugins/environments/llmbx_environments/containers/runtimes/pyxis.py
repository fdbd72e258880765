"""The runtime `pyxis`: srun starts the ranks in enroot containers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import JOB_NAME, Finding, Image, Launch, Launcher, Phase, RunSpec, Wrapping

from ...programs import run
from .container import FileRuntime
from .enroot import EnrootRuntime

if TYPE_CHECKING:
    from ..images.tool import FileTool

_CLEAN = """\
enroot remove --force "$1"
enroot list | while read -r name; do
  job=${name#pyxis_llmbx-}
  [ "$job" != "$name" ] || continue
  left=$(squeue --noheader --jobs="${job%%-*}" --format=%i 2>&1)
  case $left in "" | *"Invalid job id"*) enroot remove --force "$name" ;; esac
done
"""
"""Removes a container, and those of earlier jobs of llmbx that have ended.

A job that is cancelled cannot remove its own, because Slurm starts no further step of it.
"""

_REMOVE = ("/bin/sh", "-c", _CLEAN, "sh", f"pyxis_{JOB_NAME}")
"""Pyxis gives a named container this name in enroot (pyxis_slurmstepd.c)."""


class PyxisRuntime(FileRuntime):
    """Runs programs in containers that srun starts through the Pyxis plugin."""

    name = "pyxis"
    start_failure = (
        r"(?<=error: pyxis: )(?!child \d|printing |ignoring |container was not started|\s)"
    )
    summary = "Slurm's Pyxis plugin: srun starts each rank in an enroot container"

    def file_tool(self) -> FileTool:
        """The tool that creates squashfs files."""
        return EnrootRuntime().file_tool()

    def importer_missing(self) -> str | None:
        """Why enroot, which imports images, is not installed here, or None."""
        return EnrootRuntime().available()

    def works_with(self, launcher: Launcher) -> str | None:
        """None if the launcher starts ranks with srun, else the reason."""
        if launcher.flag_syntax == "srun":
            return None
        return "requires a launcher that starts ranks with srun: use --launcher slurm"

    def available(self) -> str | None:
        """None if srun supports the Pyxis flags, else the reason."""
        if not shutil.which("srun"):
            return "srun is not on PATH"
        if "--container-image" in run(["srun", "--help"]).stdout:
            return None
        return "Slurm's Pyxis plugin is not installed (srun --help lacks --container-image)"

    def wrap(
        self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path
    ) -> Wrapping:
        """The srun flags of one rank, as in the recipes: writable, without the home folder, PMIx.

        The container has a name of the job's own, so that each node unpacks the image only once for
        all steps. Pyxis may keep named containers after the job, so the job removes them.
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
            return self.not_here(reason, "ask the cluster's administrator for Pyxis")
        return None
