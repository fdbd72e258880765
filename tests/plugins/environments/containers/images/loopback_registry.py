"""A small registry on loopback, for the tests of what is imported from registries."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import threading
from typing import Any

CONFIG = "sha256:" + "c" * 64
IMAGE = json.dumps({"config": {"digest": CONFIG}, "layers": [{"size": 100}, {"size": 23}]}).encode()


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


INDEX = json.dumps({"manifests": [
    {"digest": "sha256:" + "0" * 64, "platform": {"os": "linux", "architecture": "riscv64"}},
    {"digest": digest(IMAGE), "platform": {"os": "linux", "architecture": "amd64"}},
]}).encode()  # fmt: skip


class Registry(http.server.ThreadingHTTPServer):
    """A registry with one image behind a token service (login `me`, password `secret word`).

    `answers` are the manifests by tag or digest, as a client asks for them.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.login = True
        self.answers = {"1": INDEX, digest(INDEX): INDEX, digest(IMAGE): IMAGE, "text": b"hello"}
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        """Return a token, or a manifest if the request has one."""
        if self.path.startswith("/token"):
            login = "Basic " + base64.b64encode(b"me:secret word").decode()
            good = self.headers.get("Authorization") == login and "scope=repository%3Ateam%2Fapp%3Apull" in self.path
            return self._answer(200 if good else 401, b'{"token": "T"}')
        if self.server.login and self.headers.get("Authorization") != "Bearer T":
            return self._answer(401, b"")
        manifest = self.server.answers.get(self.path.split("/")[-1])
        return self._answer(404, b"") if manifest is None else self._answer(200, manifest)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status == 401:
            where = f'realm="http://{self.server.name}/token",service="r",scope="repository:team/app:pull"'
            self.send_header("WWW-Authenticate", f"Bearer {where}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""
