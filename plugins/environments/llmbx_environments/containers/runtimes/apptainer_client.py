"""Ask Apptainer (or Singularity) for its version and for the labels of an image, and have it build images, through the
client of the package spython, which is imported when it is first needed.

Two things use the command line instead (`ApptainerRuntime`). A rank is an argv in a job script, where no client runs.
An import has a deadline, reports its progress, is retried after failures of the network and ended with its children;
the client only waits for the end of its command.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

FROM = "org.label-schema.usage.singularity.deffile.from"
"""Label with which Apptainer and Singularity record the image that a file was made from."""


@cache
def version(tool: str) -> str | None:
    """Version of the program `tool` ("1.4.5"), or None if it cannot be determined. A process asks once."""
    from spython.utils import run_command

    # `version` of the client knows only the name singularity, which Debian's package of Apptainer does not install.
    try:
        done = run_command([tool, "--version"], quiet=True)
    except OSError:
        return None
    words = "".join(done["message"]).split()
    return words[-1] if words and done["return_code"] == 0 else None


def labels(tool: str, file: Path) -> dict[str, str]:
    """The labels of an image file; empty if it has none or cannot be read."""
    try:
        found = _client(tool).inspect(str(file))
        return {str(name): str(value) for name, value in found["attributes"]["labels"].items()}
    except (
        OSError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
    ):  # as the client does, if the tool fails
        return {}


def build(
    tool: str,
    definition: Path,
    output: Path,
    options: tuple[str, ...],
    run: Callable[[tuple[str, ...]], None],
) -> None:
    """Build the image file `output` from a definition file; `run` runs the command, and raises if it fails."""
    client = _client(tool)
    client._run_command = lambda command, **_: run(
        tuple(command)
    )  # its own hides the reason of a failure
    client.build(
        recipe=str(definition), image=str(output), options=list(options), sudo=False, quiet=True
    )


def _client(tool: str) -> Any:
    from spython.main import get_client

    client = get_client(quiet=True)
    client._init_command = lambda action, flags=None: [tool, *(flags or ()), action]
    return client
