"""The runtime `enroot`: runs ranks in a squashfs image, without a daemon and without root."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import Finding, Image, Launch, Phase, RunSpec, Wrapping

from .container import FileRuntime

if TYPE_CHECKING:
    from ..images.tool import FileTool

_READ_ONLY = "none:x-create=auto,rbind,ro"

_PASS_VARIABLE = """\
nl='
'
pass_variable() {
  eval "v=\\$$1"
  case $v in
    *"$nl"* | [\\"\\']*)
      eval "export LLMBX_ENCODED_$1='\
$(printf %s "$v" | od -An -v -to1 | tr -d '\\n' | sed 's/ /\\\\0/g')'"
      flags="$flags --env LLMBX_ENCODED_$1" LLMBX_ENCODED="$LLMBX_ENCODED $1" ;;
    *) flags="$flags --env $1" ;;
  esac; }
export LLMBX_ENCODED=
flags='--env LLMBX_ENCODED'
"""
"""POSIX sh that passes one variable to enroot, which writes variables to a file, one per line, and
strips quotes around a value (`common::envfmt` in its src/common.sh, version 4.1.2). Values that it
would change are encoded as octal numbers."""

_DECODE = """\
for n in $LLMBX_ENCODED; do
  eval "v=\\$(printf %b \\"\\$LLMBX_ENCODED_$n.\\"); export $n=\\${v%.}; unset LLMBX_ENCODED_$n"
done
unset LLMBX_ENCODED v
exec "$@"\
"""
"""POSIX sh that every container starts with. It decodes the encoded values."""


class EnrootRuntime(FileRuntime):
    """Runs programs with `enroot start` directly on the image file."""

    name = "enroot"
    start_failure = r"^(?:\[ERROR\]|enroot-\w+: |nvidia-container-cli: )"
    summary = "enroot, from a squashfs file in $LLMB_INSTALL/images"

    def file_tool(self) -> FileTool:
        """The tool that creates squashfs files."""
        from .enroot_tool import Enroot

        return Enroot()

    def available(self) -> str | None:
        """None if enroot is installed, else the reason."""
        return None if shutil.which("enroot") else "enroot is not on PATH"

    def look_inside(self, image: Image, install: Path) -> Image:
        """Return the image with its Python version; starts each image once."""
        from ..images.files import inspect_file

        return inspect_file(image, self.file_tool(), install)

    def wrap(
        self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path
    ) -> Wrapping:
        """Wrap one rank with `enroot start`.

        enroot's hook provides GPUs, and the rank shim sets the working folder.
        """
        mounts = self.container_mounts(spec, launch, phase, run_dir, ": \t")
        argv: list[str] = []
        for mount in mounts:
            if not mount.optional:
                argv += ["--mount", mount.joined(_READ_ONLY)]
        optional = self.for_optional_mounts(
            mounts, lambda joined: f'set -- --mount {joined} "$@"', _READ_ONLY
        )
        names = self.forwarded_variables(spec, phase)
        variables = self.for_set_variables(names, "pass_variable $n")
        script = f'{_PASS_VARIABLE}{variables}; {optional}exec enroot start --rw $flags "$@"'
        inside = (image.path or image.reference, "/bin/sh", "-c", _DECODE, "inside")
        return Wrapping(argv=("/bin/sh", "-c", script, "forward", *argv, *inside))

    def check(self, install: Path) -> Finding | None:
        """Start a container from a minimal root file system with the host's shell."""
        from .tiny_root import check_with, tiny_root

        if reason := self.available():
            return self.not_here(reason, "install enroot, or choose --runtime")
        with tiny_root() as root:
            argv = ["enroot", "start", root.name, "/bin/sh", "-c", "exit 0"]
            return check_with("enroot", (argv,), {"ENROOT_DATA_PATH": str(root.parent)})
