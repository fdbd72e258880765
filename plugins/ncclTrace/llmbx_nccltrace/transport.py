"""Determine the transport between ranks from the log lines about networks and connections. Pure."""

from __future__ import annotations

import re
from collections import Counter

from llmbx.api import listed, plural

from .communicators import parse_process
from .counts import LogCounts
from .report import Transport

_THROUGH_PCIE = {"PIX", "PXB", "PHB", "SYS"}
_PCIE_CHUNK = "131072"
_OFI = re.compile(r"libfabric|\bofi\b|\baws\b", re.IGNORECASE)


def transport(counts: LogCounts) -> Transport | None:
    """Return the transport; None if no line shows it. Connections take precedence over announced networks."""
    nets = {kind.split("/")[1] for kind in counts.channels if kind.startswith("NET/")}
    chosen = nets or (set() if counts.channels else set(_fact(counts, "network")))
    if chosen:
        verdict = _network(counts, chosen)
    elif any(kind.startswith("P2P") for kind in counts.channels):
        verdict = _peer_to_peer(counts)
    elif "SHM" in counts.channels:
        verdict = "SHM"
    else:
        return None
    return Transport(
        verdict=verdict,
        fallback=verdict in ("Socket", "SHM"),
        evidence=tuple(_evidence(counts)),
        channels=dict(sorted(counts.channels.items())),
    )


def _network(counts: LogCounts, names: set[str]) -> str:
    """Return the network. A single socket connection makes it Socket, since the slowest link delays all ranks."""
    providers = {p.lower() for p in _fact(counts, "provider")}
    ofi = {name for name in names if _OFI.search(name)}
    if "Socket" in names or (ofi and providers & {"tcp", "sockets"}):
        return "Socket"
    if ofi:
        return "EFA" if "efa" in providers or (not providers and any("AWS" in name for name in ofi)) else sorted(ofi)[0]
    if any(name.startswith("IB") for name in names):
        links = {link for text in _fact(counts, "devices") for link in re.findall(r"/(RoCE|IB)\b", text)}
        return "+".join(sorted(links)) or "IB"
    return sorted(names)[0]


def _peer_to_peer(counts: LogCounts) -> str:
    """Return the kind of links between the GPUs of a node: by the rings that NCCL found, else by its chunk size.

    On one node, NCCL's chunk is 128 KiB unless NVLink connects all GPUs. NVLink/P2P if no line shows the links.
    """
    rings, chunks = set(_fact(counts, "links")), set(_fact(counts, "chunk"))
    if (rings and rings <= _THROUGH_PCIE) or (not rings and counts.nodes == 1 and chunks == {_PCIE_CHUNK}):
        return "P2P over PCIe"
    return "XGMI/P2P" if "XGMI" in rings else "NVLink/P2P"


def _fact(counts: LogCounts, topic: str) -> Counter[str]:
    return counts.facts.get(topic, Counter())


def hosts_of(counts: LogCounts, what: str) -> list[str]:
    """Return the hosts of the processes that logged a transport or fact, or the process names if hosts are unknown."""
    processes = {parse_process(process) for process in counts.users.get(what, ())}
    return sorted({p.host or p.name for p in processes})


def _evidence(counts: LogCounts) -> list[str]:
    lines = [f"via {kind}: {plural(n, 'connections')}" for kind, n in sorted(counts.channels.items())]
    lines += [f"Using network {name}: {plural(n, 'lines')}" for name, n in sorted(_fact(counts, "network").items())]
    providers = sorted(_fact(counts, "provider").items())
    lines += [f"NET/OFI Selected Provider is {name}: {plural(n, 'lines')}" for name, n in providers]
    devices = Counter[str]()
    for text, n in _fact(counts, "devices").items():
        devices[text.strip().removesuffix("[RO]").strip()] += n
    lines += [f"NET/IB : Using {text}: {plural(n, 'lines')}" for text, n in devices.most_common(4)]
    lines += [f"{text}: {plural(n, 'lines')}" for text, n in _fact(counts, "no_ib").items()]
    if any(kind.startswith("P2P") for kind in counts.channels):
        lines += [f"ring through {link}: {plural(n, 'lines')}" for link, n in sorted(_fact(counts, "links").items())]
        lines += [f"P2P Chunksize set to {size}: {plural(n, 'lines')}" for size, n in _fact(counts, "chunk").items()]
    return lines


def warnings(counts: LogCounts, transport: Transport | None) -> list[str]:
    """Return warnings about the transport; a fallback to sockets, which NCCL does not report, comes first.

    On one node NCCL selects a network, too, but sends nothing through it.
    """
    if transport is None:
        return []
    problems = []
    unused = counts.nodes == 1 and not any(kind.startswith("NET/") for kind in counts.channels)
    if transport.verdict == "Socket" and not unused:
        problems.append(_sockets(counts))
    shared = counts.channels["SHM"]
    if shared:
        problems.append(
            f"host memory (SHM) is used for {plural(shared, 'connections')} inside a node on "
            f"{_join(hosts_of(counts, 'SHM'))}: no peer-to-peer access between GPUs"
        )
    direct = sum(n for kind, n in counts.channels.items() if kind.startswith("NET/") and kind.endswith("/GDRDMA"))
    copied = sum(n for kind, n in counts.channels.items() if kind.startswith("NET/")) - direct
    if transport.verdict != "Socket" and copied:
        problems.append(
            f"no GPUDirect RDMA on {copied:,} of {plural(copied + direct, 'network connections')}: data is copied "
            "through host memory"
        )
    return problems


def _sockets(counts: LogCounts) -> str:
    count = sum(n for kind, n in counts.channels.items() if kind.startswith("NET/Socket"))
    where = _join(hosts_of(counts, "NET/Socket") or hosts_of(counts, "network Socket"))
    what = f"TCP is used for {plural(count, 'network connections')}" if count else "NCCL selected TCP sockets"
    reason = f" ({next(iter(_fact(counts, 'no_ib')))})" if _fact(counts, "no_ib") else ""
    return f"fallback to sockets: {what} on {where}{reason}; InfiniBand, RoCE or EFA would be many times faster"


def _join(names: list[str]) -> str:
    return listed(names, 6) or "unknown host"
