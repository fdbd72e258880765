"""The Docker daemon's store: is an image there, fetch it by digest, load an archive.

A look at what is there is one request over the daemon's socket: the SDK takes a tenth of a second to import, a warm
start has half of that.
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

from llmbx.errors import InfraError
from llmbx.model import Value

if TYPE_CHECKING:
    import docker

    from llmbx.runtimes.base import Progress

    from ..naming import Reference

SOCKET = "unix:///var/run/docker.sock"
_REPORT_S = 5.0
_STORE = Path("/var/lib/docker/image")


class Stored(Value, frozen=True):
    """An image of the daemon: its id, and the digest under which each repository is known to have it."""

    id: str
    digests: dict[str, str] = {}


def daemon_host() -> str:
    """Where the daemon listens."""
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
    """The image `name` (reference or id) in the daemon's store, or None. Raises `InfraError`."""
    host = daemon_host()
    found = _ask_socket(host.removeprefix("unix://"), name) if host.startswith("unix://") else _ask_sdk(name)
    if found is None:
        return None
    digests = dict(entry.split("@", 1) for entry in found.get("RepoDigests") or () if "@" in entry)
    return Stored(id=found["Id"], digests=digests)


def data_root() -> Path | None:
    """The daemon's folder, where it can be seen from here."""
    root = Path(str(_client(60).info().get("DockerRootDir") or "/nowhere"))
    return root if root.is_dir() else None


def pull(reference: Reference, digest: str, timeout_s: float, progress: Progress) -> None:
    """Have the daemon pull just `digest`, and give it the reference's tag.

    Raises `Passing` for what may pass by itself, `InfraError` for the rest and when `timeout_s` seconds are over.
    """
    import docker.errors
    import requests
    import urllib3.exceptions

    from ..images.limits import TIMEOUT
    from ..images.retry import Passing
    from ..images.tool import explain

    deadline = time.monotonic() + timeout_s
    limit = f"docker pull: not done after {timeout_s:.0f} s, the time limit; {TIMEOUT} raises it"
    try:
        _pull(reference, digest, deadline, limit, PullProgress(progress))
    except (requests.Timeout, requests.ConnectionError, urllib3.exceptions.HTTPError) as error:
        if time.monotonic() >= deadline - 1:
            raise InfraError(limit) from error
        raise Passing(f"the Docker daemon went away: {error}") from error
    except docker.errors.DockerException as error:
        raise explain("docker pull", [str(error)], _STORE) from error


def _pull(reference: Reference, digest: str, deadline: float, limit: str, shown: PullProgress) -> None:
    from ..images.tool import explain

    repository = f"{reference.registry}/{reference.repository}"
    client = _client(deadline - time.monotonic())
    for message in client.api.pull(repository, tag=digest, stream=True, decode=True):
        if "error" in message:
            raise explain("docker pull", [str(message["error"])], _STORE)
        if time.monotonic() > deadline:
            raise InfraError(limit)
        shown.feed(message)
    client.images.get(f"{repository}@{digest}").tag(repository, reference.tag)


def save(name: str, archive: Path) -> None:
    """Write the image `name` with its tag into a Docker archive. Raises `InfraError`."""
    import docker.errors

    try:
        with archive.open("wb") as file:
            for chunk in _client(3600).images.get(name).save(named=name):
                file.write(chunk)
    except docker.errors.DockerException as error:
        raise InfraError(f"Docker cannot save {name}: {error}") from error


def load(archive: Path) -> str:
    """Load a Docker archive; the image's id. Raises `InfraError`."""
    import docker.errors

    try:
        with archive.open("rb") as content:
            images = _client(3600).images.load(content)
    except docker.errors.DockerException as error:
        raise InfraError(f"Docker cannot load {archive}: {error}") from error
    if len(images) != 1:
        raise InfraError(f"{archive} holds {len(images)} images: save the one that is meant into an archive of its own")
    return str(images[0].id)


class PullProgress:
    """Says now and then how much of a pull has come, over all layers."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._layers: dict[str, tuple[int, int]] = {}
        self._said = time.monotonic()

    def feed(self, message: dict[str, Any]) -> None:
        """One message of the daemon."""
        from llmbx.cli.words import size

        detail = message.get("progressDetail") or {}
        if message.get("status") == "Downloading" and "current" in detail:
            self._layers[message["id"]] = (detail["current"], detail.get("total") or detail["current"])
        if time.monotonic() - self._said >= _REPORT_S and self._layers:
            self._said = time.monotonic()
            current, total = (sum(pair[i] for pair in self._layers.values()) for i in (0, 1))
            self._progress(f"docker pull: {size(current)} of {size(total)}")


def _client(timeout_s: float) -> docker.DockerClient:
    import docker

    return docker.from_env(timeout=max(1, int(timeout_s)))


def _ask_sdk(name: str) -> dict[str, Any] | None:
    import docker.errors

    try:
        found: dict[str, Any] = _client(60).images.get(name).attrs
    except docker.errors.ImageNotFound:
        return None
    except docker.errors.DockerException as error:
        raise InfraError(f"the Docker daemon at {daemon_host()}: {error}") from error
    return found


def _ask_socket(path: str, name: str) -> dict[str, Any] | None:
    connection = _Connection(path)
    try:
        connection.request("GET", f"/images/{urllib.parse.quote(name)}/json", headers={"Host": "docker"})
        answer = connection.getresponse()
        body = answer.read()
    except OSError as error:
        raise InfraError(f"the Docker daemon at {path} does not answer: {error.strerror or error}") from error
    finally:
        connection.close()
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise InfraError(f"the Docker daemon at {path} answered {answer.status}: {body.decode(errors='replace')[:200]}")
    found: dict[str, Any] = json.loads(body)
    return found


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
