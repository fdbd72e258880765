"""Do the runs that a search asks for."""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from llmbx.api import InfraError, RunSpec, UsageError, plural
from llmbx.api.verbs import Request, RunCall, Selection, Workspace

from ..memory.attendance import Attendance, attendances
from ..memory.speed import spread as spread_of
from .decision import Judgement
from .search import Ask, Outcome, search

ERROR = 0.05
"""Probability that a search is wrong."""

SHOWN = 4
"""Nodes that a line names before it counts the others."""


class Bisection:
    """A search among nodes with the runs of one workload.

    `difference` is the least slowness to find, `spread` the standard deviation from run to run (fractions); None: that
    of the install's runs.
    """

    def __init__(
        self,
        workspace: Workspace,
        request: Request,
        nodes: Sequence[str],
        *,
        difference: float,
        spread: float | None = None,
        most_runs: int | None = None,
    ) -> None:
        self.workspace = workspace
        self.request = request
        self.nodes = tuple(nodes)
        doublings = math.log2(len(nodes))
        self.most_runs = most_runs or math.ceil(8 * doublings) + 16
        self.judgement = Judgement(
            difference=difference,
            spread=spread or self._spread(),
            error=ERROR / (8 * max(1, doublings)),
        )
        self.group = f"bisect-{os.getpid()}-{int(time.time())}"

    def run(self, say: Callable[[str], None]) -> Outcome:
        """Search, and `say` what each run shows. Raises `InfraError` if one of them fails."""
        self._spec(self.nodes)  # refuse what cannot run before anything is said
        slower, varies = 100 * self.judgement.difference, 100 * self.judgement.spread
        say(f"{plural(len(self.nodes), 'nodes')}, at most {self.most_runs} runs")
        say(f"looking for nodes that are slower by {slower:g} %; from run to run, step times vary by {varies:.2f} %")
        asked = search(self.nodes, self.judgement, self.most_runs)
        try:
            ask, number = next(asked), 1
            while True:
                step_s = self._step_s(ask)
                say(f"run {number}: {_some(ask.tried)} ({ask.why}): {step_s:.4f} s")
                ask, number = asked.send(step_s), number + 1
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome

    def _step_s(self, ask: Ask) -> float:
        spec = self._spec(ask.nodes)
        call = RunCall(spec, self.workspace, None, None, 1, False, False, False, 1.0, "json")
        result = call.measure(spec, self.group)
        mean_s = result.step_time_s.mean
        if result.status != "completed" or not result.data_valid or mean_s is None:
            raise InfraError(f"run {result.id} on {_some(ask.nodes)} measured nothing: {result.cause or result.status}")
        return mean_s

    def _spec(self, nodes: Sequence[str]) -> RunSpec:
        """The workload on these nodes. Raises `UsageError` if the launcher cannot choose nodes."""
        first = self.workspace.resolve(self.request)
        spec = self.workspace.resolve(self.request.replace(gpus=len(nodes) * first.gpus_per_node))
        placed = self.workspace.plugins.launcher(spec.launcher).on_nodes(spec, nodes)
        if placed is None:
            raise UsageError(f"the launcher {spec.launcher} cannot choose nodes: use one of a cluster (--launcher)")
        return placed

    def _spread(self) -> float:
        runs = self.workspace.plugins.history.select(self.workspace.install, Selection())
        works: dict[str, list[Attendance]] = defaultdict(list)
        for attendance in attendances(runs, self.workspace.plugins):
            if attendance.step_s is not None:
                works[attendance.work].append(attendance)
        return spread_of(works.values())[0]


def _some(nodes: Sequence[str]) -> str:
    shown = ", ".join(nodes[:SHOWN])
    return shown if len(nodes) <= SHOWN else f"{shown} and {len(nodes) - SHOWN} more"
