"""enroot as a program: import squashfs files, and start programs in them."""

from __future__ import annotations

from pathlib import Path

from ..images.tool import Command, FileTool
from ..naming import Reference
from .container import default_variables


class Enroot(FileTool):
    """The program enroot."""

    name = "enroot"
    suffix = ".sqsh"

    def import_command(
        self, reference: Reference, output: Path, scratch: Path, plain_http: bool
    ) -> Command:
        """The import command of the recipes, but by digest.

        enroot keeps its own temporary folder for unpacking, because overlays need a local disk, and
        its default registry has another name.
        """
        source = "docker://" + reference.enroot.removeprefix("docker.io#")
        env = default_variables(ENROOT_ALLOW_HTTP="y") if plain_http else {}
        other = ("--arch", reference.other_machine) if reference.other_machine else ()
        return Command(argv=("enroot", "import", *other, "--output", str(output), source), env=env)

    def start_command(self, file: Path) -> Command:
        """The command that starts a program in the image."""
        return Command(argv=("enroot", "start", str(file)))
