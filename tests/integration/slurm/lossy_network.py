"""A stand-in for a network that loses a message between srun and the controller: a proxy on loopback."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from .cluster import Cluster

# Types of Slurm's messages (slurm_protocol_defs.h): a message begins with its length (4 bytes), the protocol's version
# (2), flags (2) and the type (2).
JOBS_QUERY, JOB_QUERY, SUBMISSION, ALLOCATION_LOOKUP, STEP_CREATION = 2003, 2021, 4003, 4027, 5001
ANY = 0
_TYPE = slice(8, 10)
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of a connection that ends with a reset: on, for 0 s."""


class Lost(NamedTuple):
    """A "request" of this type, or its "answer": the first one after as many as `after`.

    A "connection" is of type `ANY`: it is reset at once, as those are that a controller has not accepted when it ends.
    """

    what: str
    type: int
    after: int = 0


class Network:
    """Connects clients with the controller at `target`, a port of loopback; each of `lost` is lost once."""

    def __init__(self, target: int, lost: Sequence[Lost]) -> None:
        self._target = target
        self.left = list(lost)
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]

    def serve(self) -> None:
        """Accept connections until the network is closed."""
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _connect(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            if self._lost_of(ANY) is not None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return
            request = b""
            while len(request) < _TYPE.stop:
                part = client.recv(1 << 16)
                if not part:
                    return
                request += part
            lost = self._lost_of(int.from_bytes(request[_TYPE]))
            if lost is not None and lost.what == "request":
                return
            with socket.create_connection(("127.0.0.1", self._target)) as controller:
                controller.sendall(request)
                threading.Thread(target=_copy, args=(client, controller), daemon=True).start()
                if lost is None:
                    _copy(controller, client)
                else:
                    controller.recv(1)
                client.shutdown(socket.SHUT_RDWR)

    def _lost_of(self, kind: int) -> Lost | None:
        """What is to be lost of a message of this type; it is counted."""
        with self._lock:
            lost = next((lost for lost in self.left if lost.type == kind), None)
            if lost is None:
                return None
            self.left.remove(lost)
            if not lost.after:
                return lost
            self.left.append(lost._replace(after=lost.after - 1))
            return None


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def lossy_network(cluster: Cluster, folder: Path, *lost: Lost) -> Iterator[tuple[Network, Path]]:
    """A network to the controller that loses these messages, and the slurm.conf of its clients, made in `folder`."""
    network = Network(cluster.port, lost)
    config = folder / "lossy" / "slurm.conf"
    config.parent.mkdir()
    real, lossy = (f"SlurmctldPort={port}" for port in (cluster.port, network.port))
    config.write_text(cluster.config.read_text().replace(real, lossy))
    thread = threading.Thread(target=network.serve, daemon=True)
    thread.start()
    try:
        yield network, config
    finally:
        network.close()
        thread.join()
