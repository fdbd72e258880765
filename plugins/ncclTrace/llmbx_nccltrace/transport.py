"""Over what the ranks talk, judged by the lines that name networks and connections. Pure."""

from __future__ import annotations

import re
from collections import Counter

from .people import process
from .report import Transport
from .tally import Tally
from .words import many

_OFI = re.compile(r"libfabric|\bofi\b|\baws\b", re.IGNORECASE)


def transport(tally: Tally) -> Transport | None:
    """The verdict; None when no line tells. What was connected counts for more than what was only announced."""
    nets = {kind.split("/")[1] for kind in tally.channels if kind.startswith("NET/")}
    chosen = nets or (set() if tally.channels else set(_fact(tally, "network")))
    if chosen:
        verdict = _network(tally, chosen)
    elif any(kind.startswith("P2P") for kind in tally.channels):
        verdict = "NVLink/P2P"
    elif "SHM" in tally.channels:
        verdict = "SHM"
    else:
        return None
    return Transport(
        verdict=verdict,
        fallback=verdict in ("Socket", "SHM"),
        evidence=tuple(_evidence(tally)),
        channels=dict(sorted(tally.channels.items())),
    )


def _network(tally: Tally, names: set[str]) -> str:
    """Sockets as soon as one connection uses them: the slowest link holds up all ranks."""
    providers = {p.lower() for p in _fact(tally, "provider")}
    ofi = {name for name in names if _OFI.search(name)}
    if "Socket" in names or (ofi and providers & {"tcp", "sockets"}):
        return "Socket"
    if ofi:
        return "EFA" if "efa" in providers or (not providers and any("AWS" in name for name in ofi)) else sorted(ofi)[0]
    if any(name.startswith("IB") for name in names):
        links = {link for text in _fact(tally, "devices") for link in re.findall(r"/(RoCE|IB)\b", text)}
        return "+".join(sorted(links)) or "IB"
    return sorted(names)[0]


def _fact(tally: Tally, topic: str) -> Counter[str]:
    return tally.facts.get(topic, Counter())


def hosts_of(tally: Tally, what: str) -> list[str]:
    """The hosts of the processes that had a transport or fact, or their names where they have no host."""
    found = {process(who) for who in tally.places.get(what, ())}
    return sorted({p.host or p.name for p in found})


def _evidence(tally: Tally) -> list[str]:
    lines = [f"via {kind}: {many(n, 'connection')}" for kind, n in sorted(tally.channels.items())]
    lines += [f"Using network {name}: {many(n, 'line')}" for name, n in sorted(_fact(tally, "network").items())]
    providers = sorted(_fact(tally, "provider").items())
    lines += [f"NET/OFI Selected Provider is {name}: {many(n, 'line')}" for name, n in providers]
    devices = Counter[str]()
    for text, n in _fact(tally, "devices").items():
        devices[re.sub(r"\s*\[RO\]\s*$", "", text).strip()] += n
    lines += [f"NET/IB : Using {text}: {many(n, 'line')}" for text, n in devices.most_common(4)]
    lines += [f"{text}: {many(n, 'line')}" for text, n in _fact(tally, "no_ib").items()]
    return lines


def doubts(tally: Tally, found: Transport | None) -> list[str]:
    """What is wrong with the transport, one sentence each; the silent fall-back to sockets first."""
    if found is None:
        return []
    said = []
    if found.verdict == "Socket":
        said.append(_sockets(tally))
    shared = tally.channels["SHM"]
    if shared:
        said.append(
            f"host memory (SHM) carries {many(shared, 'connection')} inside a node on "
            f"{_some(hosts_of(tally, 'SHM'))}: the GPUs cannot reach each other directly"
        )
    direct = sum(n for kind, n in tally.channels.items() if kind.startswith("NET/") and kind.endswith("/GDRDMA"))
    copied = sum(n for kind, n in tally.channels.items() if kind.startswith("NET/")) - direct
    if found.verdict != "Socket" and copied:
        said.append(
            f"no GPUDirect RDMA on {copied:,} of {many(copied + direct, 'network connection')}: the data takes the way "
            "through host memory"
        )
    return said


def _sockets(tally: Tally) -> str:
    count = sum(n for kind, n in tally.channels.items() if kind.startswith("NET/Socket"))
    where = _some(hosts_of(tally, "NET/Socket") or hosts_of(tally, "network Socket"))
    what = f"TCP carries {many(count, 'network connection')}" if count else "NCCL chose them as its network"
    reason = f" ({next(iter(_fact(tally, 'no_ib')))})" if _fact(tally, "no_ib") else ""
    return f"fall-back to sockets: {what} on {where}{reason}; InfiniBand, RoCE or EFA would be many times faster"


def _some(names: list[str], most: int = 6) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "") if names else "an unknown host"
