"""Read the facts of a run's nodes: one file per node, written by the node's first rank when it starts.

The machine that submits a job does not know the machines that the job runs on, so they are described inside the job.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..model.base import Scalar
from ..model.evidence import Node
from ..run_files import RunFile, RunFolder, run_file

QUERY = ("name", "driver_version", "power.limit", "clocks.max.sm", "clocks.max.memory", "clocks.applications.graphics",
         "power.default_limit", "clocks.default_applications.graphics")  # fmt: skip
"""Fields queried from nvidia-smi for each GPU, in MHz and W. New ones go to the end: older runs lack them."""

FACTS = ("gpu", "driver", "gpu_power_limit_w", "gpu_clock_sm_max_mhz", "gpu_clock_memory_max_mhz",
         "gpu_clock_application_mhz", "gpu_power_default_w", "gpu_clock_application_default_mhz")  # fmt: skip
"""Names of the same fields as facts of a host."""

PATTERN = "node-*.txt"
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")
_LARGEST = 1 << 20


def read_nodes(run_dir: Path) -> tuple[Node, ...]:
    """Return the nodes of a run in the order of their ranks; empty if no rank has started."""
    files = sorted(RunFolder(path=run_dir).glob(PATTERN), key=lambda file: (len(file.name), file.name))
    return tuple(node for file in files if (node := read_node(file)) is not None)


def read_node(file: Path | RunFile) -> Node | None:
    """Read the file of one node; None if it cannot be read."""
    try:
        with run_file(file).open() as opened:
            return parse_node(opened.read(_LARGEST).decode("utf-8", "replace"))
    except OSError:
        return None


def parse_node(text: str) -> Node:
    """Parse the text of a node's file. Unknown lines are ignored."""
    facts: dict[str, str] = {}
    gpus = []
    for line in text.splitlines():
        word, _, value = line.partition(" ")
        if word == "gpu":
            gpus.append(parse_gpu(value))
        elif value.strip():
            facts.setdefault(word, value.strip())
    return Node(
        host=facts.get("host"),
        hostname=facts.get("hostname"),
        rank=_whole(facts.get("rank", "")),
        kernel=facts.get("kernel"),
        cpu=facts.get("cpu"),
        cores=_whole(facts.get("cores", "")),
        numa=facts.get("numa"),
        gpus=tuple(gpu for gpu in gpus if gpu),
    )


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


def node_of_rank(nodes: Sequence[Node], rank: int) -> str | None:
    """Return the node of a rank if every node has the same number of ranks, one after another; None if unknown."""
    first = sorted((node.rank, node.host) for node in nodes if node.rank is not None and node.host)
    if not first or first[0][0] != 0 or len(first) < len(nodes):
        return None
    each = first[1][0] if len(first) > 1 else rank + 1
    even = [number for number, _ in first] == [each * place for place in range(len(first))]
    return first[rank // each][1] if even and rank // each < len(first) else None


def node_named(nodes: Sequence[Node], name: str) -> str | None:
    """Return the node that the scheduler or its programs call so, with or without its domain; None if it is none."""
    alike = [node.host for node in nodes if _short(name) in (_short(node.host), _short(node.hostname))]
    return alike[0] if len({*alike}) == 1 else None


def _short(name: str | None) -> str | None:
    """A name without its domain, in small letters; an address as it is."""
    return name if name is None or name[:1].isdigit() else name.partition(".")[0].lower()


def parse_gpu(line: str) -> dict[str, Scalar]:
    """Parse one line of nvidia-smi's CSV output; values in brackets ([N/A], [Not Supported]) are omitted."""
    facts: dict[str, Scalar] = {}
    for name, text in zip(FACTS, line.split(","), strict=False):
        value = text.strip()
        if name in ("gpu", "driver"):
            if value and not value.startswith("["):
                facts[name] = value
        elif _NUMBER.fullmatch(value):
            facts[name] = float(value) if "." in value else int(value)
    return facts
