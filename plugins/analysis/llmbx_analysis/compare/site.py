"""Where the runs of one side ran: the machines' names, and what they say of themselves."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.launchers.exits import read_exit
from llmbx.launchers.nodes import names, read_nodes, shared_facts
from llmbx.model import Scalar, Value

from .measured import Measured


class Site(Value, frozen=True):
    """The nodes of one side, and facts of them by name (`driver`, `gpu_power_limit_w` …); empty where not known."""

    nodes: tuple[str, ...] = ()
    facts: dict[str, Scalar] = {}


def site(runs: Sequence[Measured]) -> Site:
    """The machines of all runs of a side; the facts are those of the newest run's.

    Runs whose nodes left no word have the machine that their script ran on: of several nodes that is the first.
    """
    seen = [read_nodes(run.run.path) for run in runs]
    scripts = [read_exit(run.run.path) for run in runs]
    hosts = {name for nodes in seen for name in names(nodes)} or {end.host for end in scripts if end is not None}
    return Site(nodes=tuple(sorted(hosts)), facts=shared_facts(seen[-1]) if seen else {})
