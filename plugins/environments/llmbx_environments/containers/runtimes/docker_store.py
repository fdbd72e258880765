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

from llmbx.api import InfraError, Progress, Value, format_bytes

from ..naming import Reference

if TYPE_CHECKING:
    import docker

SOCKET = "unix:///var/run/docker.sock"
_REPORT_S = 5.0
_STORE = Path("/var/lib/docker/image")
_SLOW_S = 3600
"""Time limit of saving and loading an image."""


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
    """The image `name` (reference or id) in the daemon, or None. Raises `InfraError`."""
    with _daemon_errors():
        import docker.errors

        try:
            facts = _client(daemon_host()).images.get(name).attrs
        except docker.errors.ImageNotFound:
            return None
    digests = [entry.split("@", 1) for entry in facts.get("RepoDigests") or () if "@" in entry]
    return Stored(id=facts["Id"], digests=dict(digests))


def data_root() -> Path | None:
    """The daemon's data folder, or None if it is not visible on this machine."""
    with _daemon_errors():
        facts = _client(daemon_host()).info()
    root = Path(str(facts.get("DockerRootDir") or "/nowhere"))
    return root if root.is_dir() else None


def pull(reference: Reference, digest: str, timeout_s: float, progress: Progress) -> None:
    """Have the daemon pull exactly `digest`, and tag it as `reference`.

    Raises `TransientError` for failures worth a retry, `InfraError` for others and after
    `timeout_s` seconds.
    """
    import docker.errors
    import requests
    import urllib3.exceptions

    from ..images.tool import explain
    from ..images.transient import TransientError
    from ..settings import TIMEOUT

    deadline = time.monotonic() + timeout_s
    advice = f"set {TIMEOUT} to allow more time"
    late = InfraError(f"docker pull: timed out after {timeout_s:.0f} s; {advice}")
    repository = f"{reference.registry}/{reference.repository}"
    shown = PullProgress(progress)
    try:
        client = _connect(timeout_s)
        for message in client.api.pull(repository, tag=digest, stream=True, decode=True):
            if "error" in message:
                raise explain("docker pull", [str(message["error"])], _STORE)
            if time.monotonic() > deadline:
                raise late
            shown.feed(message)
        client.images.get(f"{repository}@{digest}").tag(repository, reference.tag)
    except (requests.Timeout, requests.ConnectionError, urllib3.exceptions.HTTPError) as error:
        if time.monotonic() >= deadline - 1:
            raise late from error
        raise TransientError(f"lost the connection to the Docker daemon: {error}") from error
    except docker.errors.DockerException as error:
        raise explain("docker pull", [str(error)], _STORE) from error


def save(name: str, archive: Path) -> None:
    """Save the image `name` with its tag as a Docker archive. Raises `InfraError`."""
    with _errors(f"docker save {name}"), archive.open("wb") as file:
        for chunk in _connect(_SLOW_S).images.get(name).save(named=name):
            file.write(chunk)


def load(archive: Path) -> str:
    """Load a Docker archive and return the image's id. Raises `InfraError` unless it has one."""
    with _errors(f"docker load {archive}"), archive.open("rb") as content:
        images = _connect(_SLOW_S).images.load(content)
    if len(images) != 1:
        count = f"{len(images)} images: expected an archive with one image"
        raise InfraError(f"{archive} contains {count}")
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
            current = detail["current"]
            self._layers[message["id"]] = (current, detail.get("total") or current)
        if self._layers and time.monotonic() - self._reported_at >= _REPORT_S:
            self._reported_at = time.monotonic()
            done = sum(current for current, _ in self._layers.values())
            total = sum(total for _, total in self._layers.values())
            self._progress(f"docker pull: {format_bytes(done)} of {format_bytes(total)}")


def _connect(timeout_s: float) -> docker.DockerClient:
    import docker

    return docker.from_env(timeout=max(1, int(timeout_s)))


@cache
def _client(host: str) -> docker.DockerClient:
    """A client for queries of the daemon at `host`, which a process opens once."""
    return _connect(60)


def _daemon_errors() -> contextlib.AbstractContextManager[None]:
    return _errors(f"the Docker daemon at {daemon_host()}")


@contextlib.contextmanager
def _errors(title: str) -> Iterator[None]:
    """Turn errors of the SDK and its HTTP library into an `InfraError` with one line.

    The SDK raises `ValueError` if DOCKER_HOST is not an address.
    """
    import docker.errors
    import requests
    import urllib3.exceptions

    failures = (
        docker.errors.DockerException,
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        ValueError,
    )
    try:
        yield
    except docker.errors.APIError as error:
        reason = _line(error.explanation or error)
        raise InfraError(f"{title} returned {error.status_code}: {reason}") from error
    except failures as error:
        raise InfraError(f"{title}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """The reason of the operating system, which the SDK nests; else the innermost message."""
    inner = error.__cause__ or error.__context__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return _reason(inner) if inner else _line(error)


def _line(message: object) -> str:
    return " ".join(str(message).split())
