"""The definitions of the images that llmbx builds: a Dockerfile with its arguments filled in, and
the Apptainer definition that the parsers of the package spython make of it. Pure functions.

The Dockerfiles are in `containers/` of the source tree, and beside this file when installed.
"""

from __future__ import annotations

import re
import shlex
from importlib import resources
from pathlib import Path

from ..naming import is_file, parse_reference

_BOOTSTRAPS = {".tar": "docker-archive", ".sif": "localimage"}


def dockerfile(kind: str, base: str, **arguments: str) -> str:
    """The Dockerfile for images of `kind` ("cpu" or "gpu") on `base`, without any ARG.

    `base` is a reference or the path of an image file. Raises `KeyError` if an argument without a
    default is missing.
    """
    file = resources.files(__package__).joinpath(f"{kind}.Dockerfile")
    image = str(Path(base).absolute()) if is_file(base) else parse_reference(base).docker
    return _filled(file.read_text(encoding="utf-8"), {"BASE": image, **arguments})


def apptainer_definition(dockerfile: str) -> str:
    """The Apptainer definition of a filled Dockerfile with one stage, for the same folder."""
    from spython.logger import bot
    from spython.main.parse.parsers import DockerParser
    from spython.main.parse.writers import SingularityWriter

    bot.level = 0  # it warns of each file of the build context that the working folder lacks
    parser = DockerParser(None)
    parser.lines = dockerfile.splitlines(keepends=True)
    parser.parse()
    (stage,) = parser.recipe.values()
    # The parser cuts a path at "as ", keeps comments as commands, and labels as in the Dockerfile,
    # which Apptainer would read as one label.
    base = stage.fromHeader = dockerfile.partition("\nFROM ")[2].partition("\n")[0]
    stage.install = [line for line in stage.install if line.strip() and not line.startswith("#")]
    stage.labels = [pair.split("=", 1) for (line,) in stage.labels for pair in shlex.split(line)]
    # Without the writer's script, Apptainer takes over what the base image starts.
    text = SingularityWriter(parser.recipe).convert().partition("\n%runscript")[0]
    bootstrap = _BOOTSTRAPS[Path(base).suffix] if is_file(base) else "docker"
    return f"Bootstrap: {bootstrap}{text.removeprefix('Bootstrap: docker')}\n"


def rebased(dockerfile: str, base: str) -> str:
    """The filled Dockerfile on another base, such as the id of an image loaded from a file."""
    return re.sub(r"^FROM .*$", f"FROM {base}", dockerfile, count=1, flags=re.MULTILINE)


def _filled(source: str, arguments: dict[str, str]) -> str:
    """The Dockerfile with `arguments`, or the defaults, in place of its arguments (`${NAME}`)."""
    values: dict[str, str] = {}
    lines = []
    for line in source.splitlines(keepends=True):
        if declared := re.fullmatch(r"ARG (\w+)(?:=(.*))?\n", line):
            name, default = declared.groups()
            values[name] = arguments.get(name, default) or arguments[name]
        else:
            lines.append(re.sub(r"\$\{(\w+)\}", lambda used: values[used[1]], line))
    return "".join(lines)
