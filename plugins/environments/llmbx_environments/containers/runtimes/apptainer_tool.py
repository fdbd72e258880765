"""Apptainer or Singularity as a program: import, convert, build and inspect SIF files.

Builds and queries use the client of the package spython, which is imported when it is first needed.
Imports use the command line: an import has a deadline, reports its progress, is retried and ended
with its children, while the client only waits for the end of its command.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ..images.credentials import login_for
from ..images.tool import Command, FileTool
from ..naming import ARCHITECTURES, Reference
from .container import default_variables

FROM = "org.label-schema.usage.singularity.deffile.from"
"""Label with which both programs record the image that a file was made from."""


class Apptainer(FileTool):
    """The program apptainer, or singularity if only that is on PATH."""

    suffix = ".sif"

    def __init__(self, program: str | None = None) -> None:
        """`program`: its name, if it is not to be looked for."""
        only_singularity = not shutil.which("apptainer") and shutil.which("singularity")
        self.name = program or ("singularity" if only_singularity else "apptainer")

    def import_command(
        self, reference: Reference, output: Path, scratch: Path, plain_http: bool
    ) -> Command:
        """The command that imports from a registry, with the user's login."""
        options: tuple[str, ...] = ("--no-https",) if plain_http else ()
        if other := reference.other_machine:
            options += ("--arch", ARCHITECTURES.get(other, other))
        argv = (self.name, "build", *options, str(output), f"docker://{reference.docker}")
        return Command(argv=argv, env=self.build_variables(scratch, reference.registry))

    def convert_command(self, archive: Path, output: Path, scratch: Path) -> Command:
        """The command that converts a Docker archive."""
        argv = (self.name, "build", str(output), f"docker-archive:{archive}")
        return Command(argv=argv, env=self.build_variables(scratch))

    def start_command(self, file: Path) -> Command:
        """The command that starts a program in the image."""
        argv = (self.name, "--quiet", "exec", "--cleanenv", "--no-home", str(file))
        return Command(argv=argv)

    def build_variables(self, scratch: Path, registry: str = "") -> dict[str, str]:
        """The variables of a build: temporary files in `scratch`, and the registry's login."""
        prefix = self.name.upper()
        variables = default_variables(
            **{f"{prefix}_TMPDIR": str(scratch), f"{prefix}_CACHEDIR": str(scratch / "cache")}
        )
        if registry and (login := login_for(registry)):
            variables[f"{prefix}_DOCKER_USERNAME"] = login.user
            variables[f"{prefix}_DOCKER_PASSWORD"] = login.password
        return variables

    def build(
        self,
        definition: Path,
        output: Path,
        options: tuple[str, ...],
        run: Callable[[tuple[str, ...]], None],
    ) -> None:
        """Build `output` from a definition file; `run` runs the command, and raises if it fails."""
        client = self._client()
        # Its own way to run a command hides the reason of a failure.
        client._run_command = lambda command, **_: run(tuple(command))
        client.build(
            recipe=str(definition), image=str(output), options=list(options), sudo=False, quiet=True
        )

    def labels(self, file: Path) -> dict[str, str]:
        """The labels of an image file; empty if it has none or cannot be read."""
        try:
            answer = self._client().inspect(str(file))
            labels = answer["attributes"]["labels"]
            return {str(name): str(value) for name, value in labels.items()}
        except (OSError, LookupError, TypeError, ValueError, AttributeError):
            return {}  # the client raises any of these if the program fails

    def _client(self) -> Any:
        from spython.main import get_client

        client = get_client(quiet=True)
        client._init_command = lambda action, flags=None: [self.name, *(flags or ()), action]
        return client


@cache
def version(program: str) -> str | None:
    """Version of a program ("1.4.5"), or None if it cannot be determined. A process asks once.

    The client's own `version` knows only the name singularity, which not every package installs.
    """
    from spython.utils import run_command

    try:
        done = run_command([program, "--version"], quiet=True)
    except OSError:
        return None
    words = "".join(done["message"]).split()
    return words[-1] if words and done["return_code"] == 0 else None
