"""Tiny wheels, an index that can be slow, and a program that prepares an environment."""

from __future__ import annotations

import base64
import hashlib
import http.server
import os
import subprocess
import sys
import threading
import urllib.parse
import zipfile
from collections.abc import Sequence
from pathlib import Path

from ...patience import PATIENCE_S

CORE = Path(__file__).parents[3] / "core"


def make_wheel(folder: Path, name: str, version: str = "1.0", padding: int = 0, requires: Sequence[str] = ()) -> Path:
    """A pure Python wheel `name` whose module says its version; `padding` random bytes make it large."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    files = {
        f"{name}.py": f"version = {version!r}\n".encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: toy\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if padding:
        files[f"{name}.bin"] = os.urandom(padding)
    record = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, content in files.items():
            wheel.writestr(member, content)
    return path


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Index(http.server.ThreadingHTTPServer):
    """A package index on loopback over a folder of wheels. Files whose name starts with `slow` wait for `release`."""

    daemon_threads = True

    def __init__(self, wheels: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.wheels = wheels
        self.asked: list[str] = []
        self.waiting = threading.Event()
        self.release = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """What PIP_INDEX_URL is set to."""
        return f"http://127.0.0.1:{self.server_port}/simple"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        """A project's page, or one wheel."""
        parts = urllib.parse.unquote(self.path).strip("/").split("/")
        self.server.asked.append(self.path)
        if parts[0] == "simple":
            found = self.server.wheels.glob(f"{parts[-1].replace('-', '_')}-*.whl")
            links = [f'<a href="/files/{p.name}#sha256={_sha256(p)}">{p.name}</a>\n' for p in found]
            self._answer("".join(links).encode(), "text/html")
            return
        if parts[-1].startswith("slow"):
            self.server.waiting.set()
            self.server.release.wait(60)
        self._answer((self.server.wheels / parts[-1]).read_bytes(), "application/octet-stream")

    def do_HEAD(self) -> None:
        """The size of one wheel, which uv asks for first."""
        path = self.server.wheels / urllib.parse.unquote(self.path).strip("/").split("/")[-1]
        self.send_response(200 if path.is_file() else 404)
        self.send_header("Content-Length", str(path.stat().st_size if path.is_file() else 0))
        self.end_headers()

    def _answer(self, body: bytes, kind: str) -> None:
        try:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""


def pip_settings(tmp_path: Path, **settings: str) -> dict[str, str]:
    """The environment of a user whose pip has just these settings; uv has an empty cache and no configuration."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_")) and k != "PYTHONPATH"}
    kept |= {"UV_CACHE_DIR": str(tmp_path / "uv-cache")}
    fixed = {"PIP_CONFIG_FILE": os.devnull, "PIP_CACHE_DIR": str(tmp_path / "pip-cache"), "PIP_RETRIES": "1"}
    return {**kept, **fixed, "PYTHONPATH": str(CORE), "HOME": str(tmp_path), **settings}


def start(lock: Path, install: Path, env: dict[str, str], *options: str, inside: str = "") -> subprocess.Popen[str]:
    """Start preparing the environment of `lock` in a process of its own.

    `inside` is shell text that is run first, in a mount namespace of its own that ends with the process.
    """
    argv = [sys.executable, str(Path(__file__).with_name("prepare.py")), str(lock), str(install), *options]
    if inside:
        unshare = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-rm"]
        argv = [*unshare, "sh", "-c", f'{inside} && exec "$@"', "sh", *argv]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def prepare(lock: Path, install: Path, env: dict[str, str], *options: str, inside: str = "") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of preparing the environment of `lock`."""
    process = start(lock, install, env, *options, inside=inside)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err
