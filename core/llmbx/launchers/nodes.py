"""Read the facts of a run's nodes: one file per node, written by the node's first rank when it starts.

The machine that submits a job does not know the machines that the job runs on, so they are described inside the job.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..model import Node, Scalar
from ..run_files import RunFile, RunFolder, run_file

QUERY = ("name", "driver_version", "power.limit", "clocks.max.sm", "clocks.max.memory", "clocks.applications.graphics",
         "power.default_limit", "clocks.default_applications.graphics")  # fmt: skip
"""Fields queried from nvidia-smi for each GPU, in MHz and W. New ones go to the end: older runs lack them."""

FACTS = ("gpu", "driver", "gpu_power_limit_w", "gpu_clock_sm_max_mhz", "gpu_clock_memory_max_mhz",
         "gpu_clock_application_mhz", "gpu_power_default_w", "gpu_clock_application_default_mhz")  # fmt: skip
"""Names of the same fields as facts of a host."""

SCRIPT = "node.sh"
"""The script in the run folder that writes a node's file."""

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
        word, _, rest = line.partition(" ")
        if word == "gpu":
            gpus.append(parse_gpu(rest))
        elif rest.strip():
            facts.setdefault(word, rest.strip())
    cores = facts.get("cores", "")
    return Node(
        host=facts.get("host"),
        kernel=facts.get("kernel"),
        cpu=facts.get("cpu"),
        cores=int(cores) if cores.isascii() and cores.isdigit() and len(cores) < 7 else None,
        numa=facts.get("numa"),
        gpus=tuple(gpu for gpu in gpus if gpu),
    )


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
