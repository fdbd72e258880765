"""What the analysis says, as frozen values. Times are seconds; unknown is None, never 0."""

from __future__ import annotations

from llmbx.model import Value

SCHEMA = 1


class Step(Value, frozen=True):
    """One step of one rank, from the first kernel it launched to the first kernel of the step after it.

    Everything is measured by union, so nothing counts twice: `busy_s` + `idle_s` = `duration_s`, and
    `overlapped_s` (under compute) + `exposed_s` = `communication_s`. `busy_s` holds copies and memory sets too. Without
    GPU activity `duration_s` is the range on the CPU and the rest is unknown. `step` is the number the ranges carry,
    None where the capture has no step ranges and is taken whole.
    """

    rank: int | None
    label: str
    step: int | None
    start_s: float
    duration_s: float
    busy_s: float | None = None
    idle_s: float | None = None
    compute_s: float | None = None
    communication_s: float | None = None
    overlapped_s: float | None = None
    exposed_s: float | None = None


class Rank(Value, frozen=True):
    """All steps of one rank added up, and where they were read from. `device` is CUDA's number in its process."""

    rank: int | None
    label: str
    file: str
    device: int | None
    steps: int
    kernels: int
    duration_s: float
    busy_s: float | None = None
    idle_s: float | None = None
    compute_s: float | None = None
    communication_s: float | None = None
    overlapped_s: float | None = None
    exposed_s: float | None = None


class Kernel(Value, frozen=True):
    """A kernel over all ranks and the whole capture: calls, the sum of their times, its share of all kernels' time."""

    name: str
    kind: str
    calls: int
    total_s: float
    mean_s: float
    max_s: float
    share: float


class Collective(Value, frozen=True):
    """A communication kernel over all ranks and the whole capture; `exposed_s` is what no compute of its rank hid."""

    name: str
    operation: str | None
    calls: int
    total_s: float
    mean_s: float
    exposed_s: float
    overlapped_s: float


class Gap(Value, frozen=True):
    """A stretch of a step in which a rank's GPU did nothing. `start_s` counts from the start of the step."""

    rank: int | None
    label: str
    step: int | None
    start_s: float
    duration_s: float


class Range(Value, frozen=True):
    """An NVTX range by its text and domain, over all ranks."""

    domain: str | None
    text: str
    calls: int
    total_s: float
    mean_s: float
    min_s: float
    max_s: float


class Straggler(Value, frozen=True):
    """How one rank met the others in collectives that all of them made.

    Whoever comes last is in the collective for the shortest time. `last` counts those; `causes_s` is what all others
    together waited in them, `waits_s` what this rank waited for others.
    """

    rank: int | None
    label: str
    last: int
    last_share: float
    causes_s: float
    waits_s: float


class Stragglers(Value, frozen=True):
    """Collectives that could be matched over ranks, the time they need at least, and who kept whom waiting.

    `transfer_s` is the sum over collectives of the shortest time any rank spent in them, `wait_s` the sum over ranks of
    the time beyond it. `unmatched` counts collectives that not all ranks made equally often in a step.
    """

    matched: int
    unmatched: int
    transfer_s: float
    wait_s: float
    ranks: tuple[Straggler, ...]


class Ceiling(Value, frozen=True):
    """What removing all exposed communication could gain at most: `step_s` would become `without_s`.

    Both are means over steps of the slowest rank's time; `speedup` = step_s / without_s. Never a promise.
    """

    step_s: float
    without_s: float
    speedup: float


class Source(Value, frozen=True):
    """A file that was read: what wrote it, in which schema (None where it does not say), and whose secrets it holds."""

    path: str
    product: str | None = None
    schema: str | None = None
    secrets: tuple[str, ...] = ()


class Analysis(Value, frozen=True):
    """All that was found. `notes` says what could not be known, and why."""

    files: tuple[Source, ...]
    ranks: tuple[Rank, ...]
    steps: tuple[Step, ...]
    top_kernels: tuple[Kernel, ...] = ()
    top_collectives: tuple[Collective, ...] = ()
    gaps: tuple[Gap, ...] = ()
    ranges: tuple[Range, ...] = ()
    stragglers: Stragglers | None = None
    ceiling: Ceiling | None = None
    exposed_share: float | None = None
    notes: tuple[str, ...] = ()
    schema_version: int = SCHEMA
