"""Query, pull, save and load images of the Docker daemon.

Queries are sent directly over the daemon's socket: importing the Docker SDK takes a tenth of a second, twice the time
budget of a warm start.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmbx.api import InfraError, Value

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


def listens(path: str) -> bool:
    """Whether a daemon accepts connections at the Unix socket `path`."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(2)
        try:
            client.connect(path)
        except OSError:
            return False
    return True


def stored(name: str) -> Stored | None:
    """The image `name` (reference or id) in the daemon, or None. Raises `InfraError` if the daemon does not respond."""
    host = daemon_host()
    found = _inspect_socket(host.removeprefix("unix://"), name) if host.startswith("unix://") else _inspect_sdk(name)
    if found is None:
        return None
    digests = dict(entry.split("@", 1) for entry in found.get("RepoDigests") or () if "@" in entry)
    return Stored(id=found["Id"], digests=digests)


def data_root() -> Path | None:
    """The daemon's data folder, or None if it is not visible on this machine."""
    root = Path(str(_client(60).info().get("DockerRootDir") or "/nowhere"))
    return root if root.is_dir() else None


def pull(reference: Reference, digest: str, timeout_s: float, progress: Progress) -> None:
    """Have the daemon pull exactly `digest`, and tag it as `reference`.

    Raises `TransientError` for failures worth a retry, `InfraError` for others and after `timeout_s` seconds.
    """
    import docker.errors
    import requests
    import urllib3.exceptions

    from ..images.limits import TIMEOUT
    from ..images.tool import explain
    from ..images.transient import TransientError

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


def _pull(reference: Reference, digest: str, deadline: float, limit: str, pull_progress: PullProgress) -> None:
    from ..images.tool import explain

    repository = f"{reference.registry}/{reference.repository}"
    client = _client(deadline - time.monotonic())
    for message in client.api.pull(repository, tag=digest, stream=True, decode=True):
        if "error" in message:
            raise explain("docker pull", [str(message["error"])], _STORE)
        if time.monotonic() > deadline:
            raise InfraError(limit)
        pull_progress.feed(message)
    client.images.get(f"{repository}@{digest}").tag(repository, reference.tag)


def save(name: str, archive: Path) -> None:
    """Save the image `name` with its tag as a Docker archive. Raises `InfraError` if Docker fails."""
    import docker.errors

    try:
        with archive.open("wb") as file:
            for chunk in _client(3600).images.get(name).save(named=name):
                file.write(chunk)
    except docker.errors.DockerException as error:
        raise InfraError(f"docker save {name}: {error}") from error


def load(archive: Path) -> str:
    """Load a Docker archive and return the image's id. Raises `InfraError` unless it contains exactly one image."""
    import docker.errors

    try:
        with archive.open("rb") as content:
            images = _client(3600).images.load(content)
    except docker.errors.DockerException as error:
        raise InfraError(f"docker load {archive}: {error}") from error
    if len(images) != 1:
        raise InfraError(f"{archive} contains {len(images)} images: expected an archive with one image")
    return str(images[0].id)


class PullProgress:
    """Reports the progress of a pull periodically, summed over all layers."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._layers: dict[str, tuple[int, int]] = {}
        self._reported_at = time.monotonic()

    def feed(self, message: dict[str, Any]) -> None:
        """Process one message of the daemon's pull stream."""
        from llmbx.api import words

        detail = message.get("progressDetail") or {}
        if message.get("status") == "Downloading" and "current" in detail:
            self._layers[message["id"]] = (detail["current"], detail.get("total") or detail["current"])
        if time.monotonic() - self._reported_at >= _REPORT_S and self._layers:
            self._reported_at = time.monotonic()
            current, total = (sum(pair[i] for pair in self._layers.values()) for i in (0, 1))
            self._progress(f"docker pull: {words.size(current)} of {words.size(total)}")


def _client(timeout_s: float) -> docker.DockerClient:
    import docker

    return docker.from_env(timeout=max(1, int(timeout_s)))


def _inspect_sdk(name: str) -> dict[str, Any] | None:
    import docker.errors

    try:
        found: dict[str, Any] = _client(60).images.get(name).attrs
    except docker.errors.ImageNotFound:
        return None
    except docker.errors.DockerException as error:
        raise InfraError(f"the Docker daemon at {daemon_host()}: {error}") from error
    return found


def _inspect_socket(path: str, name: str) -> dict[str, Any] | None:
    connection = _Connection(path)
    try:
        connection.request("GET", f"/images/{urllib.parse.quote(name)}/json", headers={"Host": "docker"})
        response = connection.getresponse()
        body = response.read()
    except OSError as error:
        raise InfraError(f"the Docker daemon at {path} does not respond: {error.strerror or error}") from error
    finally:
        connection.close()
    if response.status == 404:
        return None
    if response.status != 200:
        raise InfraError(
            f"the Docker daemon at {path} returned {response.status}: {body.decode(errors='replace')[:200]}"
        )
    found: dict[str, Any] = json.loads(body)
    return found


class _Connection(http.client.HTTPConnection):
    """HTTP connection over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
