"""What is asked of a Docker daemon at a Unix socket, and the line that reports each of its failures."""

from __future__ import annotations

import json
import shutil
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx_environments.containers.runtimes.docker import DockerRuntime
from llmbx_environments.containers.runtimes.docker_store import Stored, data_root, load, save, stored

DIGEST = f"sha256:{'d' * 64}"
Serve = Callable[[dict[str, bytes]], str]


def reply(status: int, body: object) -> bytes:
    text = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


ENDED = ": Connection reset by peer|: Remote end closed connection without response"
VERSION = reply(200, {"ApiVersion": "1.41"})


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Start a daemon that replies by the end of the request's path, and ends the connection for other paths."""
    servers: list[socketserver.BaseServer] = []
    with tempfile.TemporaryDirectory(prefix="dockerd-") as folder:

        def start(replies: dict[str, bytes]) -> str:
            class Handler(socketserver.StreamRequestHandler):
                def handle(self) -> None:
                    while line := self.rfile.readline().decode():
                        while self.rfile.readline().strip():
                            pass
                        found = next((known for end, known in replies.items() if line.split()[1].endswith(end)), None)
                        if found is None:
                            return
                        self.wfile.write(found)

            path = f"{folder}/{len(servers)}.sock"
            server = socketserver.ThreadingUnixStreamServer(path, Handler)
            server.daemon_threads = True
            servers.append(server)
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
            return f"unix://{path}"

        yield start
        for server in servers:
            server.shutdown()
            server.server_close()


def test_an_image_is_known_by_its_id_and_digests(serve: Serve, tmp_path: Path) -> None:
    image = {"Id": "sha256:1", "RepoDigests": [f"127.0.0.1:5000/a/b@{DIGEST}", "none"]}
    absent, info = {"message": "No such image"}, {"DockerRootDir": str(tmp_path)}
    serve({"/version": VERSION, "/images/127.0.0.1:5000/a/b:1/json": reply(200, image),
           "/json": reply(404, absent), "/info": reply(200, info)})  # fmt: skip
    assert stored("127.0.0.1:5000/a/b:1") == Stored(id="sha256:1", digests={"127.0.0.1:5000/a/b": DIGEST})
    assert stored("a/b:2") is None
    assert data_root() == tmp_path


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        (
            {"/version": VERSION, "/json": reply(500, {"message": "the store\nis broken"})},
            " returned 500: the store is b",
        ),
        ({"/version": VERSION}, ENDED),
        ({}, ENDED),
        ({"/version": b"garbage\r\n\r\n"}, ": garbage"),
        ({"/version": reply(200, {"ApiVersion": "1.10"})}, ": API versions below .* are no longer supported"),
    ],
)
def test_a_failure_of_the_daemon_is_one_line(serve: Serve, replies: dict[str, bytes], why: str, tmp_path: Path) -> None:
    host = serve(replies)
    with pytest.raises(InfraError, match=f"^the Docker daemon at {host}(?:{why})") as error:
        stored("a/b:1")
    assert "\n" not in str(error.value)
    (tmp_path / "image.tar").touch()
    for work, title in ((lambda: save("a/b:1", tmp_path / "new.tar"), "docker save a/b:1"),
                        (lambda: load(tmp_path / "image.tar"), f"docker load {tmp_path}/image.tar")):  # fmt: skip
        with pytest.raises(InfraError, match=f"^{title}"):
            work()


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("unix:///nowhere/docker.sock", "No such file or directory"),
        ("tcp://127.0.0.1:1", "Connection refused"),
        ("http://[", "Invalid IPv6 URL"),
    ],
)
def test_a_daemon_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch, host: str, why: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(InfraError) as error:
        stored("a/b:1")
    assert str(error.value) == f"the Docker daemon at {host}: {why}"


def test_a_runtime_without_permission_does_not_say_that_the_daemon_is_down(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(client: socket.socket, path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    host = serve({})
    assert DockerRuntime().available() is None
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert DockerRuntime().available() == (
        f"no permission to use the Docker daemon at {host}: ask for membership in the group of its socket"
    )


def test_a_runtime_without_a_daemon_says_that_it_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    assert DockerRuntime().available() == (
        "the Docker daemon is not running (cannot connect to unix:///nowhere/docker.sock)"
    )
