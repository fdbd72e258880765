"""The items of an acceptance: what is checked, and what came of it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from llmbx.api import Result, RunSpec, Scalar, Table, Value
from llmbx.api.verbs import Recorded, Request, Workspace

Verdict = Literal["pass", "fail", "not checked"]


class Criteria(Value, frozen=True):
    """What an item must reach. None and false: it is not asked for.

    `published` is the least fraction of the published throughput, `efficiency` the least fraction of the throughput per
    GPU on the fewest GPUs. `predicted`: a step takes no longer than the prediction's interval. `suspects` is the
    largest number of nodes that the item suspects.
    """

    published: float | None = None
    predicted: bool = False
    efficiency: float | None = None
    suspects: int | None = None


class Item(Value, frozen=True):
    """One thing that an acceptance checks.

    `key` names it within its plan. `kind` is what runs: `doctor`, `speed`, `each-node`, `pairs` or `workload`. `nodes`
    are those that were named, `spec` (with `set`, its `--set` pairs) and `repeats` what a workload runs, `settings`
    what the suite says for the kind. `hours` is how long it is expected to take (None: unknown), and `hours_from` says
    why. `problem` is why it cannot be checked on this site at all.
    """

    key: str
    kind: str
    nodes: tuple[str, ...] = ()
    settings: dict[str, Scalar] = {}
    criteria: Criteria = Criteria()
    spec: RunSpec | None = None
    set: dict[str, str] = {}
    repeats: int = 1
    gpus: int = 0
    hours: float | None = None
    hours_from: str = "unknown"
    problem: str | None = None

    @property
    def gpu_hours(self) -> float | None:
        """The expected GPU-hours; 0 on CPUs, None if unknown."""
        if not self.gpus:
            return 0.0
        return None if self.hours is None else self.hours * self.gpus


class Judged(Value, frozen=True):
    """One criterion of an item: what was measured, the limit, and the verdict with its reason."""

    criterion: str
    verdict: Verdict
    measured: float | None = None
    limit: float | None = None
    unit: str = ""
    reason: str = ""


class Outcome(Recorded, frozen=True):
    """What came of an item. `suspects` are the nodes to exclude, each with the reason; `runs` the ids of its runs.

    `tables` are details for the report, `evidence` is what a kind derives the outcome from, besides the runs.
    `infrastructure`: the scheduler or a node failed, not the work.
    """

    key: str
    verdict: Verdict
    reason: str = ""
    judged: tuple[Judged, ...] = ()
    suspects: dict[str, str] = {}
    runs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    evidence: dict[str, Any] = {}
    infrastructure: bool = False
    schema_version: int = 1

    @classmethod
    def of_suspects(
        cls, item: Item, verdict: Verdict, suspects: Mapping[str, str], reason: str, table: Table
    ) -> Outcome:
        """The outcome of an item whose criterion is the number of nodes that it suspects."""
        limit = float(item.criteria.suspects or 0)
        judged = Judged(
            criterion="suspects", verdict=verdict, measured=float(len(suspects)), limit=limit, unit="nodes",
            reason=reason,
        )  # fmt: skip
        return cls(
            key=item.key, verdict=verdict, reason=reason, judged=(judged,), suspects=dict(suspects), tables=(table,)
        )

    @classmethod
    def not_checked(cls, item: Item, reason: str) -> Outcome:
        """The outcome of an item that could not be checked."""
        return cls(key=item.key, verdict="not checked", reason=reason)


@dataclasses.dataclass(frozen=True)
class Site:
    """Where an acceptance takes place: the workspace, what all its runs ask for, and its nodes.

    `request` has the cluster, GPU type, launcher and runtime; its workload is a placeholder. `nodes` are those that the
    user named, else none. `acceptance` is the id of the acceptance, `items` its plan, `outcomes` are those so far and
    `results` those of the workloads, by the keys of their items. Runs from before `since` (epoch seconds) do not count.
    `say` prints a line for the user.
    """

    workspace: Workspace
    request: Request
    nodes: tuple[str, ...]
    gpu_type: str
    gpus_per_node: int
    node_count: int
    acceptance: str = ""
    items: tuple[Item, ...] = ()
    outcomes: Mapping[str, Outcome] = dataclasses.field(default_factory=dict)
    results: dict[str, list[Result]] = dataclasses.field(default_factory=dict)
    offline: bool = False
    since: float = 0.0
    say: Callable[[str], None] = print


class Kind(ABC):
    """A kind of items. Each module of `kinds` has one as `KIND`."""

    @abstractmethod
    def hours(self, item: Item, site: Site) -> tuple[float | None, str]:
        """How many hours the item is expected to take (None: unknown), and where the number is from."""

    @abstractmethod
    def check(self, item: Item, site: Site) -> Outcome:
        """Do what the item asks for, to its end. What cannot be found out here is "not checked", with the reason.

        Raises `InfraError` for a scheduler that refuses; that, and Ctrl-C, leave the item for a later call.
        """

    @abstractmethod
    def derive(self, item: Item, outcome: Outcome, results: Sequence[Result], site: Site) -> Outcome | None:
        """Derive an outcome again from its evidence and the results of its runs; None without any."""
