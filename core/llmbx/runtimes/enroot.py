"""The runtime `enroot`: a rank inside a squashfs image, without a daemon and without root."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..errors import InfraError
from ..model import Finding, Image, ImageRequest, Launch, Phase, RunSpec, Wrapping
from . import passage
from .base import Progress
from .container import planned_file, present_file
from .naming import is_file, parse_reference

SUFFIX = ".sqsh"
_READ_ONLY = "none:x-create=auto,rbind,ro"


class EnrootRuntime:
    """Programs run with `enroot start` on the image file itself."""

    name = "enroot"
    summary = "enroot, from a squashfs file in $LLMB_INSTALL/images"

    def available(self) -> str | None:
        """Why it cannot be used here, or None."""
        return None if shutil.which("enroot") else "enroot is not on PATH"

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The squashfs file as it will lie in the install."""
        return planned_file(request, install, SUFFIX, self.name)

    def prepare(self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False) -> Image:
        """The squashfs file, if it is there. Raises `InfraError` that says how to make it."""
        if reason := self.available():
            raise InfraError(f"runtime enroot: {reason}")
        image = self.plan(request, install)
        return present_file(image, import_command(image))

    def wrap(self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path) -> Wrapping:
        """`enroot start` for one rank. GPUs come with enroot's own hook, the working folder with the rank shim."""
        flags = passage.only_set(passage.forwarded(spec, phase), 'flags="$flags --env $n"')
        argv = []
        for mount in passage.mounts(spec, launch, phase, run_dir, ": \t"):
            argv += ["--mount", passage.joined(mount, _READ_ONLY)]
        start = f'flags=; {flags}; exec enroot start --rw $flags "$@"'
        return Wrapping(argv=("/bin/sh", "-c", start, "forward", *argv, image.path or image.reference))

    def check(self, install: Path) -> Finding | None:
        """Start a container from a folder made of the host's own shell."""
        from .tiny_root import check_with, tiny_root

        if reason := self.available():
            return Finding(rule="runtime enroot", problem=reason, fix="install enroot, or choose --runtime")
        with tiny_root() as root:
            command = ["enroot", "start", root.name, "/bin/sh", "-c", "exit 0"]
            return check_with("enroot", (command,), {"ENROOT_DATA_PATH": str(root.parent)})


def import_command(image: Image) -> str:
    """The command by which the recipes make the image's file."""
    if is_file(image.reference):
        return f"cp IMAGE {image.path}"
    return f"enroot import --output {image.path} docker://{parse_reference(image.reference).enroot}"
