"""The runtime `enroot`: a rank inside a squashfs image, without a daemon and without root."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.model import Finding, Image, ImageRequest, Launch, Phase, RunSpec, Wrapping
from llmbx.runtimes import container_env
from llmbx.runtimes.base import Progress

from .container import Container, default_variables, planned_file, require_tool

if TYPE_CHECKING:
    from ..images.tool import Command, FileTool
    from ..naming import Reference

SUFFIX = ".sqsh"
_READ_ONLY = "none:x-create=auto,rbind,ro"

_CARRY = """\
nl='
'
carry() {
  eval "v=\\$$1"
  case $v in
    *"$nl"* | [\\"\\']*)
      eval "export LLMBX_CARRIED_$1='$(printf %s "$v" | od -An -v -to1 | tr -d '\\n' | sed 's/ /\\\\0/g')'"
      flags="$flags --env LLMBX_CARRIED_$1" LLMBX_CARRIED="$LLMBX_CARRIED $1" ;;
    *) flags="$flags --env $1" ;;
  esac; }
export LLMBX_CARRIED=
flags='--env LLMBX_CARRIED'
"""
"""POSIX sh that has enroot hand over one variable. enroot writes variables into a file, a line each, and strips quotes
around a value (`common::envfmt` in its src/common.sh, seen with 4.1.2): such values travel as octal numbers."""

_UNPACK = """\
for n in $LLMBX_CARRIED; do
  eval "v=\\$(printf %b \\"\\$LLMBX_CARRIED_$n.\\"); export $n=\\${v%.}; unset LLMBX_CARRIED_$n"
done
unset LLMBX_CARRIED v
exec "$@"\
"""
"""POSIX sh that begins every container, and gives those values back."""


class EnrootRuntime(Container):
    """Programs run with `enroot start` on the image file itself."""

    name = "enroot"
    start_failure = r"^(?:\[ERROR\]|enroot-\w+: |nvidia-container-cli: )"
    summary = "enroot, from a squashfs file in $LLMB_INSTALL/images"

    def available(self) -> str | None:
        """Why it cannot be used here, or None."""
        return None if shutil.which("enroot") else "enroot is not on PATH"

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The squashfs file as it will lie in the install."""
        return planned_file(request, install, SUFFIX, self.name)

    def prepare(self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False) -> Image:
        """The squashfs file: found, or imported from a registry."""
        from ..images.engine import Wanted, ensure_file

        image = self.plan(request, install)
        require_tool(self.name, self.available(), image)
        return ensure_file(Wanted(image, request, install, file_tool(), progress, offline))

    def look_inside(self, image: Image, install: Path) -> Image:
        """The image with the version of its Python, for which it is started once."""
        from ..images.engine import look_into_file

        return look_into_file(image, file_tool(), install)

    def wrap(self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path) -> Wrapping:
        """`enroot start` for one rank. GPUs come with enroot's own hook, the working folder with the rank shim."""
        argv, mounts = [], container_env.mounts(spec, launch, phase, run_dir, ": \t")
        for mount in (mount for mount in mounts if not mount.optional):
            argv += ["--mount", container_env.joined(mount, _READ_ONLY)]
        lend = container_env.if_there(mounts, lambda joined: f'set -- --mount {joined} "$@"', _READ_ONLY)
        handed = container_env.only_set(container_env.forwarded(spec, phase), "carry $n")
        start = f'{_CARRY}{handed}; {lend}exec enroot start --rw $flags "$@"'
        inside = ("/bin/sh", "-c", _UNPACK, "inside")
        return Wrapping(argv=("/bin/sh", "-c", start, "forward", *argv, image.path or image.reference, *inside))

    def check(self, install: Path) -> Finding | None:
        """Start a container from a folder made of the host's own shell."""
        from .tiny_root import check_with, tiny_root

        if reason := self.available():
            return Finding(
                rule="runtime enroot", problem=reason, fix="install enroot, or choose --runtime", warning=True
            )
        with tiny_root() as root:
            command = ["enroot", "start", root.name, "/bin/sh", "-c", "exit 0"]
            return check_with("enroot", (command,), {"ENROOT_DATA_PATH": str(root.parent)})


def file_tool() -> FileTool:
    """The commands that make squashfs files and start them."""
    from ..images.tool import FileTool

    return FileTool("enroot", SUFFIX, import_command, _start)


def import_command(reference: Reference, output: Path, scratch: Path) -> Command:
    """As the recipes import, but by digest. enroot unpacks in its own temporary folder: overlays need a local disk."""
    from ..images.limits import plain_http
    from ..images.tool import Command

    env = default_variables(ENROOT_ALLOW_HTTP="y") if plain_http(reference.registry) else {}
    source = "docker://" + reference.enroot.removeprefix("docker.io#")  # enroot's own default, by its own name
    return Command(argv=("enroot", "import", "--output", str(output), source), env=dict(env))


def _start(file: Path) -> Command:
    from ..images.tool import Command

    return Command(argv=("enroot", "start", str(file)))
