"""The runtime `apptainer`: runs ranks in a SIF image with a clean environment."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import Finding, Image, Launch, Phase, RunSpec, Wrapping

from .container import FileRuntime

if TYPE_CHECKING:
    from .apptainer_tool import Apptainer


class ApptainerRuntime(FileRuntime):
    """Runs programs with `apptainer exec`, or `singularity exec` if only that is installed."""

    name = "apptainer"
    start_failure = r"^FATAL:\s+(?!.*executable file not found)"
    summary = "Apptainer or Singularity, from a SIF file in $LLMB_INSTALL/images"
    converts = True

    def __init__(self, program: str | None = None) -> None:
        """`program`: its name, if it is not to be looked for."""
        self._program = program
        self._tool: Apptainer | None = None

    def file_tool(self) -> Apptainer:
        """The program, which is looked for once."""
        from .apptainer_tool import Apptainer

        self._tool = self._tool or Apptainer(self._program)
        return self._tool

    def available(self) -> str | None:
        """None if Apptainer or Singularity is installed, else the reason."""
        if shutil.which(self.file_tool().name):
            return None
        return "neither apptainer nor singularity is on PATH"

    def look_inside(self, image: Image, install: Path) -> Image:
        """Return the image with the versions inside and of the tool; starts each image once."""
        from ..images.files import inspect_file
        from .apptainer_tool import version

        tool = self.file_tool()
        inspected = inspect_file(image, tool, install)
        installed = version(tool.name)
        if installed is None:
            return inspected
        return inspected.replace(versions={**inspected.versions, tool.name: installed})

    def wrap(
        self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path
    ) -> Wrapping:
        """Wrap one rank with `apptainer exec`; variables are passed as APPTAINERENV_NAME."""
        program = self.file_tool().name
        prefix = program.upper()
        names = self.forwarded_variables(spec, phase)
        mounts = self.container_mounts(spec, launch, phase, run_dir, ":,")

        argv = [program, "--quiet", "exec", "--cleanenv", "--no-eval", "--writable-tmpfs"]
        if "HOME" not in names:
            argv += ["--home", "/tmp"]
        if self.needs_gpus(spec, launch):
            argv.append("--nv")
        for mount in mounts:
            if not mount.optional:
                argv += ["--bind", mount.joined()]
        argv += ["--pwd", str(run_dir), image.path or image.reference]

        bind = f"{prefix}_BIND"
        exports = self.for_set_variables(names, f'eval "export {prefix}ENV_$n=\\"\\$$n\\""')
        optional = self.for_optional_mounts(
            mounts, lambda joined: f'export {bind}="${{{bind}:+${bind},}}"{joined}'
        )
        script = f'{exports}; {optional}exec "$@"'
        return Wrapping(argv=("/bin/sh", "-c", script, "forward", *argv))

    def check(self, install: Path) -> Finding | None:
        """Start a container from a minimal root file system with the host's shell."""
        from .tiny_root import check_with, tiny_root

        if reason := self.available():
            return self.not_here(reason, "install apptainer, or choose --runtime")
        program = self.file_tool().name
        with tiny_root() as root:
            argv = [program, "--quiet", "exec", "--no-home", str(root), "/bin/sh", "-c", "exit 0"]
            return check_with(program, (argv,))
