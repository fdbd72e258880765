"""Was it the hardware that was asked for?"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from llmbx.api import Answer, Check, Evidence, GpuType, Node, NotPossible, RunSpec, Scalar

from .common import NO_SPEC

CPU = "cpu"
"""The GPU type of a run without GPUs, and the backend that a framework states for it."""

NOTHING_SEEN = NotPossible(reason="neither the first rank nor a node recorded any GPU")

BACKENDS = {"gpu": "a GPU", "cuda": "a GPU", "rocm": "a GPU", CPU: "a CPU"}
"""What a backend stated in a log runs on."""


PART = re.compile(r"\bMIG\b|\b(?:GRID|vGPU)\b|-\d{1,3}[ABCQ](?:ME)?$")
"""In the product name of a part of a GPU: a MIG slice (H100 MIG 1g.10gb), or a vGPU by its profile (H100-40C)."""

ROUNDED_W = 1.0
"""A power limit this much below the default is the default: both are rounded."""

ALIKE = {
    "gpu": "products",
    "gpu_clock_sm_max_mhz": "highest SM clocks (MHz)",
    "gpu_clock_memory_max_mhz": "highest memory clocks (MHz)",
}
"""Facts that all GPUs of a run have in common."""

SET_ALIKE = {"gpu_power_limit_w": "power limits (W)", "gpu_clock_application_mhz": "application clocks (MHz)"}
"""Facts that somebody can set, of nodes whose GPUs the run uses all."""

NODES_ALIKE = {"cpu": "CPUs", "cores": "numbers of CPU cores", "kernel": "kernels", "numa": "bindings to NUMA nodes"}
"""Facts that all nodes of a run have in common."""

Gpu = dict[str, Scalar]
"""What nvidia-smi says about one GPU, by the names in `llmbx.launchers.nodes.FACTS`."""


def gpu_type(evidence: Evidence) -> Answer:
    """A node, or the first rank, has GPUs of another type."""
    spec = evidence.spec
    if spec is None:
        return NO_SPEC
    requested = GpuType.builtin().get(spec.gpu_type)
    if not _seen(evidence):
        return NOTHING_SEEN
    if requested is None or not requested.match:
        return NotPossible(reason=f"the product names of {spec.gpu_type} are not known")
    other = [name for name in evidence.gpus or () if not _matches(requested, name)]
    if other:
        return f"the recipe is for {requested.title}, but the first rank saw {other[0]}"
    for number, node in enumerate(evidence.nodes):
        strangers = [name for name in _products(node) if not _matches(requested, name)]
        # A display's GPU beside enough of the right ones is not used.
        if strangers and len(node.gpus) - len(strangers) < _wanted(spec):
            return f"the recipe is for {requested.title}, but {_name(node, number)} has {_counted(strangers)}"
    return _unseen(evidence)


def no_gpu(evidence: Evidence) -> Answer:
    """Nobody saw a GPU in a run on GPUs."""
    spec = evidence.spec
    if spec is None:
        return NO_SPEC
    if spec.gpu_type == CPU or _seen(evidence):
        return None
    return f"the recipe is for {spec.gpu_type}, but neither the first rank nor a node recorded any GPU"


def gpu_count(evidence: Evidence) -> Answer:
    """A node has fewer GPUs than asked for."""
    spec = evidence.spec
    if spec is None:
        return NO_SPEC
    if not _seen(evidence):
        return NOTHING_SEEN
    expected = _wanted(spec)
    if evidence.gpus and len(evidence.gpus) < expected:
        return f"the first rank saw {len(evidence.gpus)} GPUs, but its node should have {expected}"
    for number, node in enumerate(evidence.nodes):
        if node.gpus and len(node.gpus) < expected:
            return f"{_name(node, number)} has {len(node.gpus)} GPUs, but it should have {expected}"
    return _unseen(evidence)


def mixed_gpus(evidence: Evidence) -> Answer:
    """The GPUs of the run differ in product or in their highest clock."""
    used = _queried(evidence)
    if isinstance(used, NotPossible):
        return used
    for fact, what in ALIKE.items():
        values = _by_value(used, fact)
        if len(values) > 1:
            return f"the GPUs have different {what}: {_listed(values)}"
    return _set_apart(evidence, used) or _unseen(evidence)


def _set_apart(evidence: Evidence, used: Sequence[tuple[str, list[Gpu]]]) -> str | None:
    """What is set differently, unless it is below the default somewhere: then another check says so."""
    assert evidence.spec is not None
    whole = [(name, gpus) for name, gpus in used if len(gpus) <= _wanted(evidence.spec)]
    lowered = any(isinstance(test(evidence), str) for test in (power_limit, application_clock))
    for fact, what in SET_ALIKE.items() if not lowered else ():
        values = _by_value(whole, fact)
        numbers = [float(value) for value in values]
        if numbers and max(numbers) - min(numbers) > ROUNDED_W:
            return f"the GPUs have different {what}: {_listed(values)}"
    return None


def mixed_nodes(evidence: Evidence) -> Answer:
    """The nodes differ in their CPU, kernel or binding."""
    if evidence.spec is None:
        return NO_SPEC
    parts = []
    for fact, what in NODES_ALIKE.items():
        values: dict[str, list[str]] = {}
        for number, node in enumerate(evidence.nodes):
            if (value := getattr(node, fact)) is not None:
                values.setdefault(str(value), []).append(_name(node, number))
        if len(values) > 1:
            parts.append(f"different {what}: {_listed(values)}")
    return f"the nodes have {'; '.join(parts)}" if parts else None


def same_host(evidence: Evidence) -> Answer:
    """Two nodes of the job are one machine."""
    if evidence.spec is None:
        return NO_SPEC
    if evidence.spec.gpu_type == CPU:
        return NotPossible(reason="nodes without GPUs may share a machine")
    names = [node.hostname for node in evidence.nodes if node.hostname]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is None:
        return None if len(names) > 1 else NotPossible(reason="fewer than two nodes recorded their own name")
    return f"{names.count(twice)} nodes of the job are the machine {twice}: their ranks share its GPUs"


def unused_gpus(evidence: Evidence) -> Answer:
    """A node has more GPUs than the run uses."""
    used = _queried(evidence)
    if isinstance(used, NotPossible):
        return used
    assert evidence.spec is not None
    expected = _wanted(evidence.spec)
    more = [(name, len(gpus)) for name, gpus in used if len(gpus) > expected]
    if not more:
        return _unseen(evidence)
    name, count = more[0]
    return (
        f"{name} has {count} GPUs, and the run uses {expected}: others may use the rest, unless the node is exclusive"
    )


def mixed_drivers(evidence: Evidence) -> Answer:
    """The nodes have different drivers."""
    used = _queried(evidence)
    if isinstance(used, NotPossible):
        return used
    drivers = _by_value(used, "driver")
    return f"the nodes have different GPU drivers: {_listed(drivers)}" if len(drivers) > 1 else _unseen(evidence)


def power_limit(evidence: Evidence) -> Answer:
    """The power limit of a GPU is below its default."""
    return _lowered(evidence, "gpu_power_limit_w", "gpu_power_default_w", "power limit", "W", ROUNDED_W)


def application_clock(evidence: Evidence) -> Answer:
    """The application clock of a GPU is below its default."""
    names = ("gpu_clock_application_mhz", "gpu_clock_application_default_mhz")
    return _lowered(evidence, *names, "application clock", "MHz", 0.0)


def _lowered(evidence: Evidence, fact: str, default: str, what: str, unit: str, rounded: float) -> Answer:
    """The first node on which a GPU that the run used has `fact` below `default`."""
    used = _queried(evidence)
    if isinstance(used, NotPossible):
        return used
    if not any(_number(gpu, fact) and _number(gpu, default) for _, gpus in used for gpu in gpus):
        return NotPossible(reason=f"nvidia-smi does not tell the {what} and its default")
    assert evidence.spec is not None
    for name, gpus in used:
        low = [gpu for gpu in gpus if (_number(gpu, fact) or math.inf) < (_number(gpu, default) or 0.0) - rounded]
        # With more GPUs than the run used, a lowered one may be another's.
        if len(low) > max(0, len(gpus) - _wanted(evidence.spec)):
            worst = min(low, key=lambda gpu: _number(gpu, fact) or 0.0)
            limits = f"{worst[fact]} {unit}, below the default {worst[default]} {unit}"
            return f"{name}: the {what} of {len(low)} of {len(gpus)} GPUs is {limits}"
    return _unseen(evidence)


def _queried(evidence: Evidence) -> list[tuple[str, list[Gpu]]] | NotPossible:
    """The nodes whose nvidia-smi answered: name, and GPUs of the type asked for (all, if its products are unknown)."""
    spec = evidence.spec
    if spec is None:
        return NO_SPEC
    if spec.gpu_type == CPU or not any(node.gpus for node in evidence.nodes):
        return NotPossible(reason="no node recorded its GPUs: nvidia-smi is missing or did not answer")
    requested = GpuType.builtin().get(spec.gpu_type)
    queried = []
    for number, node in enumerate(evidence.nodes):
        right = [gpu for gpu in node.gpus if requested and _matches(requested, str(gpu.get("gpu")))]
        if node.gpus:
            queried.append((_name(node, number), right or list(node.gpus)))
    return queried


def _seen(evidence: Evidence) -> bool:
    spec = evidence.spec
    gpus = bool(evidence.gpus) or any(node.gpus for node in evidence.nodes)
    return spec is not None and spec.gpu_type != CPU and gpus


def _unseen(evidence: Evidence) -> NotPossible | None:
    """Nothing was found, but not every node recorded its GPUs."""
    assert evidence.spec is not None
    recorded = sum(bool(node.gpus) for node in evidence.nodes)
    if evidence.gpus and not (evidence.nodes and evidence.nodes[0].gpus):
        recorded += 1
    nodes = evidence.spec.nodes
    return NotPossible(reason=f"only {recorded} of {nodes} nodes recorded their GPUs") if recorded < nodes else None


def _products(node: Node) -> list[str]:
    return [str(gpu["gpu"]) for gpu in node.gpus if gpu.get("gpu")]


def _wanted(spec: RunSpec) -> int:
    """The number of GPUs that the run needs on a node."""
    return min(spec.gpus, spec.gpus_per_node)


def _matches(known: GpuType, product: str) -> bool:
    return not PART.search(product) and any(re.search(pattern, product) for pattern in known.match)


def _name(node: Node, number: int) -> str:
    return f"node {node.host or number}"


def _number(gpu: Gpu, fact: str) -> float | None:
    value = gpu.get(fact)
    return float(value) if isinstance(value, int | float) else None


def _counted(names: Sequence[str]) -> str:
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))


def _by_value(used: Sequence[tuple[str, list[Gpu]]], fact: str) -> dict[str, list[str]]:
    """The known values of a fact, each with the nodes that have it."""
    nodes: dict[str, list[str]] = {}
    for name, gpus in used:
        for value in dict.fromkeys(gpu[fact] for gpu in gpus if gpu.get(fact) is not None):
            nodes.setdefault(str(value), []).append(name)
    return nodes


def _listed(found: Mapping[str, Sequence[str]]) -> str:
    """Values with their nodes: the number of nodes for many, and the name for one."""
    parts = [f"{value} ({names[0] if len(names) == 1 else f'{len(names)} nodes'})" for value, names in found.items()]
    return ", ".join(parts)


def backend(evidence: Evidence) -> Answer:
    """The framework states another kind of device."""
    spec = evidence.spec
    if spec is None:
        return NO_SPEC
    stated = [str(event.facts["backend"]) for event in evidence.events if "backend" in event.facts]
    if not stated:
        return NotPossible(reason="the log does not state the kind of device")
    expected = BACKENDS[CPU] if spec.gpu_type == CPU else "a GPU"
    other = next((name for name in stated if BACKENDS.get(name.lower(), expected) != expected), None)
    return f"the framework ran on {BACKENDS[other.lower()]}, but {spec.gpu_type} was asked for" if other else None


OTHER = "Set --gpu-type to what the machine has; its figures are then compared with those of that type."

CHECKS = (
    Check(
        "gpu-unseen", "The GPUs that the first rank saw, and nvidia-smi on every node.",
        "Nothing shows that the run used a GPU at all.",
        "Let the program of the ranks record its GPUs (llmbx.entry.seen), or install nvidia-smi on the nodes.",
        "not comparable", no_gpu,
    ),
    Check(
        "gpu-type", "The product names of the GPUs that the first rank and each node saw, against the GPU type.",
        "The right job on other hardware: the data is valid, but not for that GPU type.", OTHER,
        "not comparable", gpu_type,
    ),
    Check(
        "gpu-count", "The number of GPUs that the first rank and each node saw.",
        "A GPU is missing on the node, or is shared.", "Check the node with `nvidia-smi`.", "not comparable", gpu_count,
    ),
    Check(
        "gpu-power", "The power limit of the GPUs of each node, against its default (nvidia-smi).",
        "A lowered power limit is another state of the hardware: the GPU is slower under load than its type.",
        "Reset it with `nvidia-smi -pl`, or compare with runs under the same limit.", "not comparable", power_limit,
    ),
    Check(
        "gpu-clock", "The application clock of the GPUs of each node, against its default (nvidia-smi).",
        "A lowered application clock is another state of the hardware: the GPU never reaches the clock of its peak.",
        "Reset it with `nvidia-smi -rac`, or compare with runs under the same clock.", "not comparable",
        application_clock,
    ),
    Check(
        "gpu-mixed",
        "The product names, the highest SM and memory clocks, the power limits and the application clocks of the GPUs "
        "of all nodes.",
        "The slowest GPU sets the pace of all.", "Choose nodes that are alike.", "warning", mixed_gpus,
    ),
    Check(
        "same-host", "The name that each node gives itself.",
        "Two nodes of the job are one machine: their ranks share GPUs.",
        "Check the scheduler's configuration of the nodes, and how the job was started.", "invalid", same_host,
    ),
    Check(
        "gpu-unused", "The GPUs that nvidia-smi lists on each node, of the type asked for.",
        "The run does not use all of them: other jobs may share the node's memory, network and power.",
        "Use all GPUs of a node, or make sure that nobody else is on it.", "warning", unused_gpus,
    ),
    Check(
        "node-mixed", "CPU, cores, kernel, and the binding to NUMA nodes, of all nodes.",
        "The slowest node sets the pace of all.", "Choose nodes that are alike.", "warning", mixed_nodes,
    ),
    Check(
        "gpu-driver", "The driver versions of all nodes.",
        "A node has another driver: its speed, and its faults, may be others.", "Install one driver on all nodes.",
        "warning", mixed_drivers,
    ),
    Check(
        "backend", "The kind of device that the framework states.",
        "A run that asked for GPUs ran on a CPU, or the other way round.", OTHER, "not comparable", backend,
    ),
)  # fmt: skip
