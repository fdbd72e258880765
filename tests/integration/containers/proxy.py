"""A stand-in between the tools and the real registry that breaks what a test asks it to break."""

from __future__ import annotations

import dataclasses
import http.client
import http.server
import re
import threading
import time


@dataclasses.dataclass
class Fault:
    """What goes wrong for requests whose path matches: an answer of this status, a cut after so many bytes, or a rate.

    `times` counts down; None never ends. `wrong` turns the content into other content of the same length.
    """

    path: str = ""
    status: int | None = None
    cut: int | None = None
    bytes_per_s: int | None = None
    wrong: bool = False
    times: int | None = None
    headers: dict[str, str] = dataclasses.field(default_factory=dict)


class Proxy(http.server.ThreadingHTTPServer):
    """Passes GET and HEAD on to the registry at `port`, with `fault` in between; `asked` are the paths so far."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port = port
        self.fault: Fault | None = None
        self.asked: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def registry(self) -> str:
        """The stand-in as references name it."""
        return f"127.0.0.1:{self.server_port}"

    def take_fault(self, path: str) -> Fault | None:
        """The fault for this request, counted."""
        fault = self.fault
        if fault is None or not re.search(fault.path, path) or fault.times == 0:
            return None
        if fault.times is not None:
            fault.times -= 1
        return fault


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Pass the request on, or break it."""
        self.server.asked.append(self.path)
        fault = self.server.take_fault(self.path)
        try:
            if fault and fault.status:
                self._refuse(fault)
            else:
                self._pass_on(fault)
        except OSError:
            self.close_connection = True

    do_HEAD = do_GET

    def _refuse(self, fault: Fault) -> None:
        self.send_response(fault.status or 500)
        for name, value in {"Content-Length": "0", **fault.headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _pass_on(self, fault: Fault | None) -> None:
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.port)
        headers = {name: value for name, value in self.headers.items() if name.lower() in ("accept", "range")}
        upstream.request(self.command, self.path, headers=headers)
        answer = upstream.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "date", "location"):
                self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self._send(answer, fault)
        upstream.close()

    def _send(self, answer: http.client.HTTPResponse, fault: Fault | None) -> None:
        sent = 0
        while chunk := answer.read(16384):
            if fault and fault.cut is not None and sent + len(chunk) > fault.cut:
                self.wfile.write(chunk[: fault.cut - sent])
                self.wfile.flush()
                self.connection.close()
                raise ConnectionAbortedError
            if fault and fault.bytes_per_s:
                time.sleep(len(chunk) / fault.bytes_per_s)
            if fault and fault.wrong:
                chunk = bytes(255 - byte for byte in chunk)
            self.wfile.write(chunk)
            sent += len(chunk)

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""
