"""Results of the analysis. Times are in seconds; unknown values are None, never 0."""

from __future__ import annotations

from llmbx.api import Value

SCHEMA = 1


class Step(Value, frozen=True):
    """One step of one rank, from its first kernel to the first kernel of the next step.

    All times are lengths of unions, so concurrent kernels count once: `busy_s` + `idle_s` = `duration_s`, and
    `overlapped_s` (by computation) + `exposed_s` = `communication_s`. `busy_s` includes copies and memory sets. Without
    GPU activity, `duration_s` is the length of the range on the CPU and the other times are unknown. `step` is the step
    number, None if the capture has no step ranges and is analyzed as a whole.
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
    """Sums over all steps of one rank, with the file they were read from. `device` is the CUDA device number."""

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
    """A kernel over all ranks and the whole capture. `share` is its fraction of the total time of all kernels."""

    name: str
    kind: str
    calls: int
    total_s: float
    mean_s: float
    max_s: float
    share: float


class Collective(Value, frozen=True):
    """A communication kernel over all ranks and the whole capture; `exposed_s` is its time without compute."""

    name: str
    operation: str | None
    calls: int
    total_s: float
    mean_s: float
    exposed_s: float
    overlapped_s: float


class Gap(Value, frozen=True):
    """An interval of a step in which a rank's GPU was idle. `start_s` is relative to the start of the step."""

    rank: int | None
    label: str
    step: int | None
    start_s: float
    duration_s: float


class Range(Value, frozen=True):
    """All NVTX ranges with the same text and domain, over all ranks."""

    domain: str | None
    text: str
    calls: int
    total_s: float
    mean_s: float
    min_s: float
    max_s: float


class Straggler(Value, frozen=True):
    """Waiting times of one rank in matched collectives.

    `last` is the number of collectives that this rank entered last, `last_share` its fraction of all matched ones.
    `causes_s` is the total time that other ranks waited for this rank, `waits_s` the time that it waited for others.
    """

    rank: int | None
    label: str
    last: int
    last_share: float
    causes_s: float
    waits_s: float


class Stragglers(Value, frozen=True):
    """Transfer and waiting times of the collectives that were matched across ranks.

    `transfer_s` is the sum over collectives of the shortest time that any rank spent in them, `wait_s` the sum over
    ranks of the time beyond it. `unmatched` counts collectives that the ranks did not call equally often in a step.
    """

    matched: int
    unmatched: int
    transfer_s: float
    wait_s: float
    ranks: tuple[Straggler, ...]


class Ceiling(Value, frozen=True):
    """Upper bound on the speed-up from removing all exposed communication: `speedup` = `step_s` / `without_s`.

    Both times are means over steps of the slowest rank's time, with and without exposed communication.
    """

    step_s: float
    without_s: float
    speedup: float


class Source(Value, frozen=True):
    """A profile file: version of nsys and of the export schema (None if unknown), and names of secrets found in it."""

    path: str
    product: str | None = None
    schema: str | None = None
    secrets: tuple[str, ...] = ()


class Analysis(Value, frozen=True):
    """The whole analysis. `notes` explains what could not be determined."""

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
