"""The transport between ranks, and the warning about a fallback to sockets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx_nccltrace.report import Report

from .lines import coll, head

ROOT = Path(__file__).parents[3]
Read = Callable[..., Report]

IB = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"
ROCE = "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"
EFA = "NET/OFI Selected Provider is efa (found 16 nics)"


def via(path: str, host: str = "node1", direction: str = "[send] ") -> str:
    """Return the line of a connection."""
    return head(host) + f"Channel 00/0 : 0[0] -> 8[0] {direction}via {path}"


@pytest.mark.parametrize(
    ("verdict", "lines"),
    [
        ("IB", [head() + IB, head() + "Using network IB", via("NET/IB/0/GDRDMA")]),
        ("RoCE", [head() + ROCE, head() + "Using network IB", via("NET/IB/0(3)/GDRDMA/Shared")]),
        ("IB+RoCE", [head() + ROCE, head("node2") + IB, via("NET/IB/0/GDRDMA")]),
        ("IB", [head() + "Using network IBext_v8", via("NET/IBext_v8/2/GDRDMA")]),
        ("EFA", [head() + EFA, head() + "Using network Libfabric", via("NET/Libfabric/0/GDRDMA")]),
        ("EFA", [head() + EFA, via("NET/AWS Libfabric/0/GDRDMA")]),
        ("EFA", [head() + "NET/OFI Selected provider is efa, fabric is efa", head() + "Using network AWS Libfabric"]),
        ("Libfabric", [head() + "NET/OFI Selected Provider is cxi", via("NET/Libfabric/0/GDRDMA")]),
        ("FasTrak", [via("NET/FasTrak/0/GDRDMA")]),
        ("NVLink/P2P", [head() + "Using network Socket", via("P2P/CUMEM/read", direction="")]),
        ("NVLink/P2P", [via("P2P/direct pointer", direction=""), via("P2P/IPC", direction="")]),
        ("SHM", [via("SHM/direct/direct", direction="")]),
        ("Socket", [head() + "NET/IB : No device found.", via("NET/Socket/0")]),
        ("Socket", [via("NET/IB/0/GDRDMA"), via("NET/Socket/0", "node9"), via("P2P/IPC", direction="")]),
        ("Socket", [head() + "Using network Socket"]),
        ("Socket", [head() + "NET/OFI Selected Provider is tcp", via("NET/Libfabric/0")]),
    ],
)  # fmt: skip
def test_verdicts(read: Read, verdict: str, lines: list[str]) -> None:
    report = read(coll(), *lines)
    assert report.transport is not None
    assert report.transport.verdict == verdict
    assert report.transport.evidence
    assert report.transport.fallback == (verdict in ("Socket", "SHM"))
    assert any("fallback to sockets" in w for w in report.warnings) == (verdict == "Socket")


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (["P2P Chunksize set to 131072"], "P2P over PCIe"),
        (["P2P Chunksize set to 524288"], "NVLink/P2P"),
        (["Pattern 4, crossNic 0, nChannels 2, bw 24.0/24.0, type PHB/PIX, sameChannels 1"], "P2P over PCIe"),
        (["Pattern 4, crossNic 0, nChannels 12, bw 20.0/20.0, type NVL/PIX, sameChannels 1"], "NVLink/P2P"),
        (["Pattern 4, crossNic 0, nChannels 12, bw 48.0/48.0, type XGMI/PIX, sameChannels 1"], "XGMI/P2P"),
        (
            ["Pattern 4, bw 20.0/20.0, type NVL/PIX", "P2P Chunksize set to 131072"],
            "NVLink/P2P",
        ),
        ([], "NVLink/P2P"),
    ],
)
def test_the_links_between_the_gpus_of_a_node(read: Read, lines: list[str], verdict: str) -> None:
    nodes = "comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0"
    report = read(*(head() + line for line in (nodes, *lines)), via("P2P/IPC", direction=""), coll())
    assert report.transport is not None and report.transport.verdict == verdict
    assert not report.transport.fallback and report.warnings == ()


def test_on_one_node_the_selected_network_is_not_used(read: Read) -> None:
    """Kept of a real run with one rank of NCCL 2.28.9 on a machine without InfiniBand."""
    (log,) = (ROOT / "benchmarks/gpu/results").glob("*/2026-11-26/nccl-*/nccl.log")
    report = read(*log.read_text().splitlines())
    assert report.transport is not None and report.transport.verdict == "Socket" and not report.warnings
    lines = [
        head() + "comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
        head() + "Using network Socket",
    ]
    assert any("fallback to sockets" in warning for warning in read(coll(), *lines).warnings)


def test_the_fallback_warning_has_host_and_reason(read: Read) -> None:
    lines = [head("node9") + "NET/IB : No device found.", via("NET/Socket/0", "node9"), via("NET/Socket/1", "node9")]
    (warning,) = [w for w in read(*lines, via("NET/IB/0/GDRDMA")).warnings if "sockets" in w]
    assert "TCP is used for 2 network connections on node9" in warning and "No device found" in warning
    assert "node1" not in warning


def test_without_gpudirect_the_data_goes_through_the_host(read: Read) -> None:
    report = read(via("NET/IB/0/GDRDMA"), via("NET/IB/1"), via("NET/IB/1"))
    assert any(w.startswith("no GPUDirect RDMA on 2 of 3 network connections") for w in report.warnings)
    assert not any("GPUDirect" in w for w in read(via("NET/IB/0/GDRDMA")).warnings)


def test_host_memory_inside_a_node_is_a_warning(read: Read) -> None:
    report = read(via("NET/IB/0/GDRDMA"), via("SHM/direct/direct", direction=""))
    assert any("host memory (SHM) is used for 1 connection inside a node on node1" in w for w in report.warnings)


def test_connections_are_counted_by_transport(read: Read) -> None:
    report = read(via("NET/IB/0/GDRDMA"), via("NET/IB/1/GDRDMA/Shared"), via("P2P/CUMEM/read"), via("P2P/CUMEM"))
    assert report.transport is not None
    assert report.transport.channels == {"NET/IB/GDRDMA": 2, "P2P/CUMEM": 2}
    assert "via NET/IB/GDRDMA: 2 connections" in report.transport.evidence
