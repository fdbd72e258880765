"""The machines of one side of a comparison: host names and hardware facts."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import (
    Exit,
    Scalar,
    Value,
)

from ..nodes import host_names, shared_facts
from .measured import MeasuredRun


class Machines(Value, frozen=True):
    """The nodes of one side and their facts by name (`driver`, `gpu_power_limit_w` …); empty if unknown."""

    nodes: tuple[str, ...] = ()
    facts: dict[str, Scalar] = {}


def machines_of(runs: Sequence[MeasuredRun]) -> Machines:
    """The machines of all runs of a side. The facts are those of the newest run.

    If a run has no node files, its machine is the host of its job script, which is the first of its nodes.
    """
    seen = [run.run.read_nodes() for run in runs]
    scripts = [Exit.read(run.run.path) for run in runs]
    hosts = {name for nodes in seen for name in host_names(nodes)} or {end.host for end in scripts if end is not None}
    return Machines(nodes=tuple(sorted(hosts)), facts=shared_facts(seen[-1]) if seen else {})
