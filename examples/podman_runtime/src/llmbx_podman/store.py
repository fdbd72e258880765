"""Podman's image store: find, pull and load images through the `podman` command."""

import json
import subprocess
import tarfile
from pathlib import Path, PurePath

from llmbx.api import InfraError, Progress, UsageError, Value

NO_PROGRAM = (126, 127)
"""Exit codes of `podman run` if the program cannot be executed or does not exist in the image."""


class Stored(Value, frozen=True):
    """An image in the store."""

    id: str
    digest: str
    """Digest of its manifest in the store."""
    digests: tuple[str, ...]
    """All digests by which a registry or the store knows it."""


def full_name(reference: str) -> str:
    """The reference as Podman spells it: `docker.io/library/python:3.12` for `docker://python:3.12`.

    Podman asks or fails if a name has no registry, because a machine may list several.
    """
    name = reference.removeprefix("docker://").replace("#", "/", 1)
    head, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    return name if "." in head or ":" in head or head == "localhost" else f"docker.io/{name}"


def archive(reference: str) -> Path | None:
    """The path if `reference` names a file, else None."""
    is_path = reference.startswith(("/", "./", "../", "~")) or reference.endswith(".tar")
    return Path(reference).expanduser().absolute() if is_path else None


def find(name: str, progress: Progress, offline: bool) -> Stored:
    """The image in the store, pulled if it is missing. Raises `InfraError` if it cannot be had."""
    if _run("image", "exists", name).returncode == 0:
        return stored(name)
    if offline:
        raise InfraError(f"Podman does not have {name} and --offline disables the pull: run `podman pull {name}` first")
    progress(f"image {name}: pulling with podman")
    podman("pull", "--quiet", name)
    return stored(name)


def load(path: Path, progress: Progress) -> Stored:
    """The image of a Docker archive, loaded unless the store has it.

    Raises `UsageError` if the file is not such an archive, `InfraError` if Podman cannot load it.
    """
    identity = archived_id(path)
    if _run("image", "exists", identity).returncode != 0:
        progress(f"image {path.name}: loading it into podman")
        podman("load", "--quiet", "--input", str(path))
    return stored(identity)


def archived_id(path: Path) -> str:
    """The id of the image in a Docker archive. Raises `UsageError` unless there is exactly one."""
    if not path.is_file():
        raise UsageError(f"image file {path} does not exist")
    try:
        with tarfile.open(path) as tar:
            member = tar.extractfile("manifest.json")
            images = json.load(member) if member else []
        configs = [str(image["Config"]) for image in images]
    except (tarfile.TarError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is not a Docker archive, as `podman save` writes it: {error}") from error
    if len(configs) != 1:
        raise UsageError(f"{path} contains {len(configs)} images: expected an archive with one image")
    return PurePath(configs[0]).stem


def stored(name: str) -> Stored:
    """The image `name` (reference or id) of the store. Raises `InfraError` if Podman fails."""
    (found,) = json.loads(podman("image", "inspect", name))
    digests = [entry.partition("@")[2] for entry in found.get("RepoDigests") or ()]
    return Stored(
        id=found["Id"], digest=found["Digest"], digests=tuple({found["Digest"]: None, **dict.fromkeys(digests)})
    )


def python_version(name: str) -> str:
    """The version of `python3` in an image. Raises `UsageError` if it has none, `InfraError` if nothing starts."""
    command = ("run", "--rm", "--pull", "never", "--network", "host", "--entrypoint", "", name)
    done = _run(*command, "python3", "-c", "import platform; print(platform.python_version())")
    if done.returncode in NO_PROGRAM and "not found" in done.stderr:
        raise UsageError(f"the image {name} has no python3 on its PATH, which llmbx needs to start programs")
    return _output(done).strip()


def podman(*arguments: str) -> str:
    """The output of a podman command. Raises `InfraError` with its last line if it fails."""
    return _output(_run(*arguments))


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ("podman", *arguments)
    try:
        return subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise InfraError(f"podman did not start: {error}") from error


def _output(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode:
        *_, last = ["no error output", *done.stderr.strip().splitlines()]
        raise InfraError(f"`podman {done.args[1]}` exited with code {done.returncode}: {last.removeprefix('Error: ')}")
    return done.stdout
