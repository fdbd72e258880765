"""Query, pull, save and load images of the Docker daemon, through the Docker SDK.

The SDK is imported when the daemon is first queried: it takes as long to import as all of llmbx.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmbx.api import InfraError, Value, format_bytes

if TYPE_CHECKING:
    import docker

    from llmbx.api import Progress

    from ..naming import Reference

SOCKET = "unix:///var/run/docker.sock"
_REPORT_S = 5.0
_STORE = Path("/var/lib/docker/image")


class Stored(Value, frozen=True):
    """An image in the daemon: its id, and its registry digest by repository."""

    id: str
    digests: dict[str, str] = {}


def daemon_host() -> str:
    """Address of the daemon, from DOCKER_HOST or the default socket."""
    return os.environ.get("DOCKER_HOST") or SOCKET


def refusal(path: str) -> OSError | None:
    """Why no daemon accepts connections at the Unix socket `path`; None if one does."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(2)
        try:
            client.connect(path)
        except OSError as error:
            return error
    return None


def stored(name: str) -> Stored | None:
    """The image `name` (reference or id) in the daemon, or None. Raises `InfraError` if the daemon does not respond."""
    with _explained(f"the Docker daemon at {daemon_host()}"):
        import docker.errors

        try:
            found = _client(daemon_host()).images.get(name).attrs
        except docker.errors.ImageNotFound:
            return None
    digests = dict(entry.split("@", 1) for entry in found.get("RepoDigests") or () if "@" in entry)
    return Stored(id=found["Id"], digests=digests)


def data_root() -> Path | None:
    """The daemon's data folder, or None if it is not visible on this machine."""
    with _explained(f"the Docker daemon at {daemon_host()}"):
        root = Path(str(_client(daemon_host()).info().get("DockerRootDir") or "/nowhere"))
    return root if root.is_dir() else None


def pull(reference: Reference, digest: str, timeout_s: float, progress: Progress) -> None:
    """Have the daemon pull exactly `digest`, and tag it as `reference`.

    Raises `TransientError` for failures worth a retry, `InfraError` for others and after `timeout_s` seconds.
    """
    import docker.errors
    import requests
    import urllib3.exceptions

    from ..images.tool import explain
    from ..images.transient import TransientError
    from ..settings import TIMEOUT

    deadline = time.monotonic() + timeout_s
    limit = f"docker pull: timed out after {timeout_s:.0f} s; set {TIMEOUT} to allow more time"
    try:
        _pull(reference, digest, deadline, limit, PullProgress(progress))
    except (requests.Timeout, requests.ConnectionError, urllib3.exceptions.HTTPError) as error:
        if time.monotonic() >= deadline - 1:
            raise InfraError(limit) from error
        raise TransientError(f"lost the connection to the Docker daemon: {error}") from error
    except docker.errors.DockerException as error:
        raise explain("docker pull", [str(error)], _STORE) from error


def _pull(
    reference: Reference, digest: str, deadline: float, limit: str, pull_progress: PullProgress
) -> None:
    from ..images.tool import explain

    repository = f"{reference.registry}/{reference.repository}"
    client = _connect(deadline - time.monotonic())
    for message in client.api.pull(repository, tag=digest, stream=True, decode=True):
        if "error" in message:
            raise explain("docker pull", [str(message["error"])], _STORE)
        if time.monotonic() > deadline:
            raise InfraError(limit)
        pull_progress.feed(message)
    client.images.get(f"{repository}@{digest}").tag(repository, reference.tag)


def save(name: str, archive: Path) -> None:
    """Save the image `name` with its tag as a Docker archive. Raises `InfraError` if Docker fails."""
    with _explained(f"docker save {name}"), archive.open("wb") as file:
        for chunk in _connect(3600).images.get(name).save(named=name):
            file.write(chunk)


def load(archive: Path) -> str:
    """Load a Docker archive and return the image's id. Raises `InfraError` unless it contains exactly one image."""
    with _explained(f"docker load {archive}"), archive.open("rb") as content:
        images = _connect(3600).images.load(content)
    if len(images) != 1:
        raise InfraError(
            f"{archive} contains {len(images)} images: expected an archive with one image"
        )
    return str(images[0].id)


class PullProgress:
    """Reports the progress of a pull periodically, summed over all layers."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._layers: dict[str, tuple[int, int]] = {}
        self._reported_at = time.monotonic()

    def feed(self, message: dict[str, Any]) -> None:
        """Process one message of the daemon's pull stream."""

        detail = message.get("progressDetail") or {}
        if message.get("status") == "Downloading" and "current" in detail:
            self._layers[message["id"]] = (
                detail["current"],
                detail.get("total") or detail["current"],
            )
        if time.monotonic() - self._reported_at >= _REPORT_S and self._layers:
            self._reported_at = time.monotonic()
            current, total = (sum(pair[i] for pair in self._layers.values()) for i in (0, 1))
            self._progress(f"docker pull: {format_bytes(current)} of {format_bytes(total)}")


def _connect(timeout_s: float) -> docker.DockerClient:
    import docker

    return docker.from_env(timeout=max(1, int(timeout_s)))


@cache
def _client(host: str) -> docker.DockerClient:
    """A client for queries of the daemon at `host`, which a process opens once."""
    return _connect(60)


@contextlib.contextmanager
def _explained(title: str) -> Iterator[None]:
    """Turn errors of the SDK and its HTTP library into an `InfraError` with one line. It raises `ValueError` if
    DOCKER_HOST is not an address.
    """
    import docker.errors
    import requests
    import urllib3.exceptions

    try:
        yield
    except docker.errors.APIError as error:
        raise InfraError(
            f"{title} returned {error.status_code}: {_line(error.explanation or error)}"
        ) from error
    except (
        docker.errors.DockerException,
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        ValueError,
    ) as error:
        raise InfraError(f"{title}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """The reason of the operating system, which the SDK nests in its own errors; else the innermost error's message."""
    inner = error.__cause__ or error.__context__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return _reason(inner) if inner else _line(error)


def _line(message: object) -> str:
    return " ".join(str(message).split())
