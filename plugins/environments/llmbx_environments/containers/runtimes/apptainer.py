"""The runtime `apptainer`: runs ranks in a SIF image with a clean environment, using Apptainer or Singularity."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import (
    Finding,
    Image,
    ImageRequest,
    Launch,
    Phase,
    Progress,
    RunSpec,
    Wrapping,
)

from .container import Container, archive, default_variables, planned_file, require_tool

if TYPE_CHECKING:
    from ..images.tool import Command, FileTool
    from ..naming import Reference

SUFFIX = ".sif"


def build_variables(tool: str, scratch: Path, registry: str) -> dict[str, str]:
    """The variables for a build with `tool`: temporary files in `scratch`, and the login of the registry ("": none)."""
    from ..images.credentials import login_for

    upper = tool.upper()
    places = {f"{upper}_TMPDIR": str(scratch), f"{upper}_CACHEDIR": str(scratch / "cache")}
    login = login_for(registry) if registry else None
    secrets = (
        {f"{upper}_DOCKER_USERNAME": login.user, f"{upper}_DOCKER_PASSWORD": login.password}
        if login
        else {}
    )
    return {**default_variables(**places), **secrets}


class ApptainerRuntime(Container):
    """Runs programs with `apptainer exec`, or `singularity exec` if only Singularity is installed."""

    name = "apptainer"
    start_failure = r"^FATAL:\s+(?!.*executable file not found)"
    summary = "Apptainer or Singularity, from a SIF file in $LLMB_INSTALL/images"

    def __init__(self, tool: str | None = None) -> None:
        """`tool`: name of the program. Default: apptainer, or singularity if only that is on PATH."""
        self._tool = tool

    @property
    def tool(self) -> str:
        """Name of the program: apptainer or singularity."""
        if self._tool is None:
            only_singularity = not shutil.which("apptainer") and shutil.which("singularity")
            self._tool = "singularity" if only_singularity else "apptainer"
        return self._tool

    def available(self) -> str | None:
        """None if Apptainer or Singularity is installed, else the reason."""
        return None if shutil.which(self.tool) else "neither apptainer nor singularity is on PATH"

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The SIF file with its path in the install, whether or not it exists yet."""
        return planned_file(request, install, SUFFIX, self.name, converts=True)

    def prepare(
        self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False
    ) -> Image:
        """Find the SIF file, import it from a registry, or convert it from a Docker archive."""
        from ..images.engine import FileRequest, ensure_file

        image = self.plan(request, install)
        require_tool(self.name, self.available(), image)
        return ensure_file(
            FileRequest(
                image, request, install, self.file_tool(), progress, offline, archive(request)
            )
        )

    def look_inside(self, image: Image, install: Path) -> Image:
        """Return the image with the versions of its Python and of the tool; starts a container once for each image."""
        from ..images.engine import inspect_file
        from .apptainer_client import version

        found = inspect_file(image, self.file_tool(), install)
        installed = version(self.tool)
        looked: Image = (
            found.replace(versions={**found.versions, self.tool: installed}) if installed else found
        )
        return looked

    def file_tool(self) -> FileTool:
        """The commands that create SIF files and start programs in them."""
        from ..images.tool import FileTool

        return FileTool(self.tool, SUFFIX, self._import, self._start, self._convert)

    def _import(
        self, reference: Reference, output: Path, scratch: Path, plain_http: bool
    ) -> Command:
        options = ("--no-https",) if plain_http else ()
        return self._build(
            options, f"docker://{reference.docker}", output, scratch, reference.registry
        )

    def _convert(self, source: Path, output: Path, scratch: Path) -> Command:
        return self._build((), f"docker-archive:{source}", output, scratch)

    def _build(
        self, options: tuple[str, ...], source: str, output: Path, scratch: Path, registry: str = ""
    ) -> Command:
        from ..images.tool import Command

        argv = (self.tool, "build", *options, str(output), source)
        return Command(argv=argv, env=build_variables(self.tool, scratch, registry))

    def _start(self, file: Path) -> Command:
        from ..images.tool import Command

        return Command(argv=(self.tool, "--quiet", "exec", "--cleanenv", "--no-home", str(file)))

    def wrap(
        self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path
    ) -> Wrapping:
        """Wrap one rank with `apptainer exec`; variables are passed as APPTAINERENV_NAME."""
        names = self.forwarded_variables(spec, phase)
        exports = self.for_set_variables(
            names, f'eval "export {self.tool.upper()}ENV_$n=\\"\\$$n\\""'
        )
        argv = [self.tool, "--quiet", "exec", "--cleanenv", "--no-eval", "--writable-tmpfs"]
        argv += [] if "HOME" in names else ["--home", "/tmp"]
        argv += ["--nv"] if self.needs_gpus(spec, launch) else []
        mounts, bind = (
            self.container_mounts(spec, launch, phase, run_dir, ":,"),
            f"{self.tool.upper()}_BIND",
        )
        for mount in (mount for mount in mounts if not mount.optional):
            argv += ["--bind", mount.joined()]
        optional = self.for_optional_mounts(
            mounts, lambda joined: f'export {bind}="${{{bind}:+${bind},}}"{joined}'
        )
        argv += ["--pwd", str(run_dir), image.path or image.reference]
        return Wrapping(argv=("/bin/sh", "-c", f'{exports}; {optional}exec "$@"', "forward", *argv))

    def check(self, install: Path) -> Finding | None:
        """Start a container from a minimal root file system with the host's shell."""
        from .tiny_root import check_with, tiny_root

        if reason := self.available():
            return Finding(
                rule="runtime apptainer",
                problem=reason,
                fix="install apptainer, or choose --runtime",
                warning=True,
            )
        with tiny_root() as root:
            command = [
                self.tool,
                "--quiet",
                "exec",
                "--no-home",
                str(root),
                "/bin/sh",
                "-c",
                "exit 0",
            ]
            return check_with(self.tool, (command,))
