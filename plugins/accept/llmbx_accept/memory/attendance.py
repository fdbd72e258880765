"""One run as a witness of its nodes."""

from __future__ import annotations

from collections.abc import Iterable

from llmbx.api import GpuType, LlmbxError, Result, RunSpec, Signatures, Value
from llmbx.api.verbs import Observed, Plugins, Run, refresh_result

OF_HARDWARE = ("gpu_error", "gpu_warning", "network_warning")
"""Kinds of failure that are those of a node, and not of the program."""


class NodeFailure(Value, frozen=True):
    """A failure that began on a known node."""

    host: str
    """The node."""
    cause: str
    """What was printed, or what the scheduler reports."""
    of_hardware: bool
    """Whether the node is at fault: a GPU or a link broke, or the scheduler lost it."""


class Attendance(Value, frozen=True):
    """A run, the nodes that it ran on, and what it says of them.

    Runs of equal `work` take equally long on equal nodes.
    """

    run: str
    """Short id."""
    created: float
    """When it was started, in epoch seconds."""
    work: str
    """What was run, and in which image."""
    hosts: tuple[str, ...]
    """Its nodes."""
    step_s: float | None = None
    """Mean step time in seconds; None if nothing comparable was measured."""
    failures: tuple[NodeFailure, ...] = ()
    """The failures of its attempts."""
    devices: dict[str, tuple[str, ...]] = {}
    """The UUIDs of the GPUs of its nodes, in order, as far as telemetry saw them."""
    slowest: str | None = None
    """The node for which the others waited; None if none stood out, or unknown."""
    compared: bool = False
    """Whether it is known how long its nodes waited for each other."""


def attendances(runs: Iterable[Run], plugins: Plugins) -> list[Attendance]:
    """The witnesses among the runs, in the order of their start. Running and unreadable runs are none."""
    witnesses = [witness for run in runs if (witness := _attendance(run, plugins)) is not None]
    return sorted(witnesses, key=lambda witness: witness.created)


def _attendance(run: Run, plugins: Plugins) -> Attendance | None:
    try:
        result, nodes = refresh_result(run, plugins), run.read_nodes()
    except LlmbxError:
        return None
    if result is None:
        return None
    hosts = tuple(dict.fromkeys(host for node in nodes if (host := node.host or node.hostname)))
    failures = tuple(_failures(run, result))
    if not hosts and not failures:
        return None
    spec, image = run.record.spec, run.record.image
    digest = image.digest or image.reference if image else None
    return Attendance(
        run=run.record.id,
        created=float(run.record.created),
        work=f"{spec.experiment} {spec.recipe} {spec.gpu_type} {digest}",
        hosts=hosts,
        step_s=_step_s(result),
        failures=failures,
        devices={node.node: uuids for node in result.nodes if (uuids := _uuids(node, spec))},
        slowest=result.stragglers.slowest_node,
        compared=result.stragglers.ranks > 1 and len(hosts) > 1,
    )


def _uuids(node: Observed.Node, spec: RunSpec) -> tuple[str, ...]:
    """The UUIDs of the GPUs of a node; none if the run did not see all of them: another run may get other ones."""
    gpu_type = GpuType.builtin().get(spec.gpu_type)
    usual = (gpu_type.gpus_per_node if gpu_type else None) or 0
    uuids = [gpu.uuid for gpu in node.gpus if gpu.uuid is not None]
    return tuple(sorted(uuids)) if usual and len(uuids) >= max(usual, spec.gpus_per_node) else ()


def _failures(run: Run, result: Result) -> Iterable[NodeFailure]:
    """Those of earlier attempts, which were repeated without the node, and that of the last one."""
    for attempt in run.record.attempts:
        if attempt.node is not None:
            yield NodeFailure(host=attempt.node, cause=attempt.cause or attempt.status, of_hardware=True)
    if result.status != "completed" and result.cause_node is not None:
        cause = result.cause or result.status
        yield NodeFailure(
            host=result.cause_node, cause=cause, of_hardware=result.status == "node_fail" or _broke(cause)
        )


def _broke(cause: str) -> bool:
    return any(event.kind in OF_HARDWARE for event in Signatures().feed(cause))


def _step_s(result: Result) -> float | None:
    """The mean step time of a run that can be compared with its like."""
    if result.status != "completed" or not result.data_valid or result.profiled or result.traced:
        return None
    mean_s = result.step_time_s.mean
    return mean_s if mean_s is not None and mean_s > 0 else None
