"""The runtime `enroot`: runs ranks in a squashfs image, without a daemon and without root."""

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

from .container import Container, default_variables, planned_file, require_tool

if TYPE_CHECKING:
    from ..images.tool import Command, FileTool
    from ..naming import Reference

SUFFIX = ".sqsh"
_READ_ONLY = "none:x-create=auto,rbind,ro"

_PASS_VARIABLE = """\
nl='
'
pass_variable() {
  eval "v=\\$$1"
  case $v in
    *"$nl"* | [\\"\\']*)
      eval "export LLMBX_ENCODED_$1='$(printf %s "$v" | od -An -v -to1 | tr -d '\\n' | sed 's/ /\\\\0/g')'"
      flags="$flags --env LLMBX_ENCODED_$1" LLMBX_ENCODED="$LLMBX_ENCODED $1" ;;
    *) flags="$flags --env $1" ;;
  esac; }
export LLMBX_ENCODED=
flags='--env LLMBX_ENCODED'
"""
"""POSIX sh that passes one variable to enroot. enroot writes variables to a file, one per line, and strips quotes
around a value (`common::envfmt` in its src/common.sh, version 4.1.2). Values that it would change are encoded as octal
numbers."""

_DECODE = """\
for n in $LLMBX_ENCODED; do
  eval "v=\\$(printf %b \\"\\$LLMBX_ENCODED_$n.\\"); export $n=\\${v%.}; unset LLMBX_ENCODED_$n"
done
unset LLMBX_ENCODED v
exec "$@"\
"""
"""POSIX sh that every container starts with. It decodes the encoded values."""


class EnrootRuntime(Container):
    """Runs programs with `enroot start` directly on the image file."""

    name = "enroot"
    start_failure = r"^(?:\[ERROR\]|enroot-\w+: |nvidia-container-cli: )"
    summary = "enroot, from a squashfs file in $LLMB_INSTALL/images"

    def available(self) -> str | None:
        """None if enroot is installed, else the reason."""
        return None if shutil.which("enroot") else "enroot is not on PATH"

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The squashfs file with its path in the install, whether or not it exists yet."""
        return planned_file(request, install, SUFFIX, self.name)

    def prepare(
        self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False
    ) -> Image:
        """Find the squashfs file, or import it from a registry."""
        from ..images.engine import FileRequest, ensure_file

        image = self.plan(request, install)
        require_tool(self.name, self.available(), image)
        return ensure_file(FileRequest(image, request, install, file_tool(), progress, offline))

    def look_inside(self, image: Image, install: Path) -> Image:
        """Return the image with its Python version; starts a container once for each image."""
        from ..images.engine import inspect_file

        return inspect_file(image, file_tool(), install)

    def wrap(
        self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path
    ) -> Wrapping:
        """Wrap one rank with `enroot start`. enroot's hook provides GPUs; the rank shim sets the working folder."""
        argv, mounts = [], self.container_mounts(spec, launch, phase, run_dir, ": \t")
        for mount in (mount for mount in mounts if not mount.optional):
            argv += ["--mount", mount.joined(_READ_ONLY)]
        optional = self.for_optional_mounts(
            mounts, lambda joined: f'set -- --mount {joined} "$@"', _READ_ONLY
        )
        variables = self.for_set_variables(
            self.forwarded_variables(spec, phase), "pass_variable $n"
        )
        start = f'{_PASS_VARIABLE}{variables}; {optional}exec enroot start --rw $flags "$@"'
        inside = ("/bin/sh", "-c", _DECODE, "inside")
        return Wrapping(
            argv=("/bin/sh", "-c", start, "forward", *argv, image.path or image.reference, *inside)
        )

    def check(self, install: Path) -> Finding | None:
        """Start a container from a minimal root file system with the host's shell."""
        from .tiny_root import check_with, tiny_root

        if reason := self.available():
            return Finding(
                rule="runtime enroot",
                problem=reason,
                fix="install enroot, or choose --runtime",
                warning=True,
            )
        with tiny_root() as root:
            command = ["enroot", "start", root.name, "/bin/sh", "-c", "exit 0"]
            return check_with("enroot", (command,), {"ENROOT_DATA_PATH": str(root.parent)})


def file_tool() -> FileTool:
    """The commands that create squashfs files and start programs in them."""
    from ..images.tool import FileTool

    return FileTool("enroot", SUFFIX, import_command, _start)


def import_command(reference: Reference, output: Path, scratch: Path, plain_http: bool) -> Command:
    """The import command of the recipes, but by digest.

    enroot keeps its own temporary folder for unpacking, because overlays need a local disk.
    """
    from ..images.tool import Command

    env = default_variables(ENROOT_ALLOW_HTTP="y") if plain_http else {}
    source = "docker://" + reference.enroot.removeprefix(
        "docker.io#"
    )  # enroot's default registry has another name
    return Command(argv=("enroot", "import", "--output", str(output), source), env=dict(env))


def _start(file: Path) -> Command:
    from ..images.tool import Command

    return Command(argv=("enroot", "start", str(file)))
