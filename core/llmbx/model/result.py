"""`result.json`, schema version 1. Unknown values are None, never 0; every object is always present."""

from __future__ import annotations

from typing import Literal

from .base import Value
from .measure import Better, MeasureKind
from .observed import Observed
from .parts import Convention, Parallelism


class Bounds(Value, frozen=True):
    """A predicted value with its interval; all but the level are None if it is unknown."""

    value: float | None = None
    """The predicted value."""
    low: float | None = None
    """Lower end of the interval."""
    high: float | None = None
    """Upper end of the interval."""
    level: float = 0.9
    """Share of the cases in which the interval holds the measured value."""

    def text(self, digits: int | None = None) -> str:
        """The value with its interval: `10.3 (8.86 to 12)`; `digits` after the point, else four significant ones.

        The value must be known.
        """
        numbers = [value for value in (self.value, self.low, self.high) if value is not None]
        shown = [f"{value:.4g}" if digits is None else f"{value:.{digits}f}" for value in numbers]
        return f"{shown[0]} ({shown[1]} to {shown[2]})" if len(shown) == 3 else shown[0]


class Expected(Value, frozen=True):
    """What a run is expected to measure."""

    step_time_s: Bounds = Bounds()
    """Step time in seconds."""
    tokens_per_s_per_gpu: Bounds = Bounds()
    """Tokens per second and GPU."""
    memory_gb: Bounds = Bounds()
    """Peak memory of a GPU in GB (10^9 bytes)."""
    source: str | None = None
    """What predicted it, and from what."""
    unknown_because: str | None = None
    """Why there is no step time."""


INTERRUPTED = 130
"""Exit code of an interrupted command: 128 plus the number of SIGINT, as shells have it."""

Status = Literal["completed", "failed", "cancelled", "timeout", "node_fail", "out_of_memory", "preempted", "lost"]


class WorkloadFacts(Value, frozen=True):
    """The measured workload, with its size and scale. Lengths are in tokens, batch sizes in samples.

    `layout_of` is the GPU type whose row was borrowed, `scaled_from` the number of GPUs of a row that was scaled.
    """

    plugin: str | None = None
    name: str | None = None
    size: str | None = None
    dtype: str | None = None
    gpu_type: str | None = None
    gpus: int | None = None
    layout_of: str | None = None
    scaled_from: int | None = None
    sequence_length: int | None = None
    global_batch_size: int | None = None
    micro_batch_size: int | None = None
    parallelism: Parallelism | None = None


class Window(Value, frozen=True):
    """The measured steps, from `first` to `last` inclusive in the log's own numbers, without those in `excluded`."""

    first: int | None = None
    last: int | None = None
    policy: str | None = None
    excluded: tuple[int, ...] = ()
    reason: str | None = None

    @property
    def span(self) -> int | None:
        """Number of steps in the window, without the excluded ones."""
        return None if self.first is None or self.last is None else self.last - self.first + 1 - len(self.excluded)

    def holds(self, number: int, covers: int = 1) -> bool:
        """Whether the step with this number is measured, with those before it that its time covers, too."""
        if self.first is None or self.last is None:
            return False
        begin = number - covers + 1
        return self.first <= begin and number <= self.last and not any(begin <= n <= number for n in self.excluded)


class StepTime(Value, frozen=True):
    """Seconds per step over the window; `std` is the sample standard deviation (n - 1)."""

    mean: float | None = None
    std: float | None = None
    median: float | None = None
    min: float | None = None
    max: float | None = None


class Tflops(Value, frozen=True):
    """TFLOP/s per GPU over the window, by the same formula as the MFU.

    `source` is "log", or "recomputed" if the log rounds the value too coarsely or counts FLOPs differently.
    """

    mean: float | None = None
    std: float | None = None
    source: Literal["log", "recomputed"] | None = None


class Mfu(Value, frozen=True):
    """Model FLOPs utilization, a fraction of the named peak (dense TFLOP/s per GPU)."""

    value: float | None = None
    formula: str | None = None
    convention: Convention | None = None
    peak_tflops: float | None = None
    peak_name: str | None = None


class Loss(Value, frozen=True):
    """First and last loss in the log."""

    first: float | None = None
    last: float | None = None


MEASURE_NUMBERS = ("mean", "std", "median", "min", "max", "steps", "per_second")
"""The numbers of a measure in `result.json`."""


class MeasureFacts(Value, frozen=True):
    """A measure over the window; `steps` is the number of measured steps that have a value of it.

    `per_second` is set for counts: the sum of the values divided by the sum of the times of these steps.
    """

    unit: str
    kind: MeasureKind
    better: Better | None = None
    mean: float | None = None
    std: float | None = None
    median: float | None = None
    min: float | None = None
    max: float | None = None
    steps: int = 0
    per_second: float | None = None
    help: str = ""

    @property
    def numbers(self) -> dict[str, float | None]:
        """Its numbers by name."""
        return {name: getattr(self, name) for name in MEASURE_NUMBERS}


class ImageFacts(Value, frozen=True):
    """Image or environment of the run, and its digest."""

    ref: str | None = None
    digest: str | None = None


class FlopsPerSample(Value, frozen=True):
    """Model FLOPs of one sample (forward and backward pass) under both conventions of counting attention."""

    full: float | None = None
    causal: float | None = None


class Timing(Value, frozen=True):
    """Seconds in the queue and to prepare the image, and after both: from the start to the end of the first step
    and to the end of the ranks (`total_s`). `outside_steps_s` are the seconds between the first and the last step that
    are in no step: evaluation, checkpoints, waiting.
    """

    queue_s: float | None = None
    prepare_s: float | None = None
    first_step_s: float | None = None
    total_s: float | None = None
    outside_steps_s: float | None = None


Stable = Literal["stable", "drifting", "two-level", "outliers", "noisy", "too few steps"]
"""Verdicts on a window (docs/stability.md)."""


class Stability(Value, frozen=True):
    """Whether the mean of the measured window represents its steps (docs/stability.md)."""

    verdict: Stable | None = None
    """None if no step was measured, or if a time is damaged."""
    reason: str | None = None
    """The numbers behind the verdict in one line."""

    @property
    def warning(self) -> str | None:
        """One line if the window was judged and is not stable."""
        if self.verdict in (None, "stable"):
            return None
        return f"the window is not stable ({self.verdict}): {self.reason}"


class CheckOutcome(Value, frozen=True):
    """A check (docs/checks.md) that found something, or that was not possible; `text` says what, or why not."""

    check: str
    outcome: Literal["failed", "invalid", "not comparable", "warning", "not possible"]
    text: str
    ranks: tuple[int, ...] = ()
    """The ranks that the finding is about, if known."""
    node: str | None = None
    """Their node, if it is one."""


class Figures(Value, frozen=True):
    """Metrics of the steps of one run; the fields are those of `result.json`."""

    window: Window
    """The measured window."""
    steps_measured: int
    """Number of measured steps."""
    steps_seen: int
    """Number of steps in the log."""
    step_time_s: StepTime
    """Statistics of the step time, in seconds."""
    stability: Stability
    """Whether the mean represents the steps."""
    tflops_per_gpu: Tflops
    """Model TFLOP/s per GPU."""
    tokens_per_s: float | None
    """Tokens per second of all GPUs."""
    tokens_per_s_per_gpu: float | None
    """Tokens per second per GPU."""
    mfu: Mfu
    """Model FLOPs utilization."""
    days_per_1t_tokens: float | None
    """Days for 10^12 tokens."""
    loss: Loss
    """First and last loss."""
    peak_memory_gb: float | None
    """Peak memory of a GPU in GB (10^9 bytes)."""
    flops_per_sample: FlopsPerSample
    """Model FLOPs per sample."""
    measures: dict[str, MeasureFacts] = {}
    """Statistics of the log's own measures, by name."""
    warnings: tuple[str, ...] = ()
    """What is doubtful about the figures, one line each."""


class Result(Value, frozen=True):
    """Measured outcome of one run: the content of `result.json`. Unknown values are None, never 0."""

    run_id: str
    """Name of the run's folder, unique in an install."""
    status: Status
    """How the run ended."""
    data_valid: bool
    """Whether the figures are those of the job that was asked for."""
    id: str | None = None
    """Short id of the run."""
    schema_version: int = 1
    """Version of the file's format."""
    workload: WorkloadFacts = WorkloadFacts()
    """What was run; lengths in tokens, batch sizes in samples."""
    exit_code: int | None = None
    """Exit code of the job; 128 + N: ended by signal N."""
    cause: str | None = None
    """Why it failed, in one line."""
    cause_rank: int | None = None
    """The rank that failed first; None if in doubt."""
    cause_ranks: tuple[int, ...] = ()
    """All ranks that failed alike, or may have been the first."""
    cause_node: str | None = None
    """The node of the first failure."""
    doubt: str | None = None
    """Why the rank is not sure."""
    window: Window = Window()
    """The measured steps: `first`, `last`, `excluded`, `policy`."""
    steps_measured: int = 0
    """Number of steps in the window."""
    steps_seen: int = 0
    """Number of steps in the log."""
    step_time_s: StepTime = StepTime()
    """Seconds per step over the window: `mean`, `std`, `median`, `min`, `max`."""
    stability: Stability = Stability()
    """Whether their mean represents the steps."""
    tflops_per_gpu: Tflops = Tflops()
    """Model TFLOP/s per GPU: `mean`, `std`, `source`."""
    tokens_per_s: float | None = None
    """Tokens per second of all GPUs."""
    tokens_per_s_per_gpu: float | None = None
    """Tokens per second of each GPU."""
    mfu: Mfu = Mfu()
    """Model FLOPs utilization: `value` (a fraction), `formula`, `convention`, `peak_tflops`, `peak_name`."""
    days_per_1t_tokens: float | None = None
    """Days for 10^12 tokens."""
    loss: Loss = Loss()
    """The `first` and `last` loss of the log."""
    peak_memory_gb: float | None = None
    """Largest memory of a GPU in gigabytes."""
    measures: dict[str, MeasureFacts] = {}
    """Measures that the log format declares, by name, over the window."""
    recipe: str | None = None
    """Name of the recipe."""
    runtime: str | None = None
    """Name of the runtime."""
    launcher: str | None = None
    """Name of the launcher."""
    job_id: str | None = None
    """The launcher's id of the job."""
    attempt: int = 0
    """Number of the attempt, from 0."""
    image: ImageFacts = ImageFacts()
    """Image or environment: `ref`, `digest`."""
    versions: dict[str, str] = {}
    """Versions of the software by name."""
    profilers: tuple[str, ...] = ()
    """Names of the run's profilers."""
    profiled: bool = False
    """Whether steps were profiled."""
    traced: bool = False
    """Whether the communication was traced."""
    comparable: bool = False
    """Whether it can be compared with published figures."""
    not_comparable_because: tuple[str, ...] = ()
    """Why not, one line each."""
    user: str | None = None
    """Who started the run."""
    flops_per_sample: FlopsPerSample = FlopsPerSample()
    """Model FLOPs of one sample, forward and backward: `full`, `causal`."""
    expected: Expected = Expected()
    """What was predicted before the start; not a reference."""
    timing: Timing = Timing()
    """Seconds: `queue_s`, `prepare_s`, `first_step_s`, `total_s`."""
    gpu_hours: float | None = None
    """GPU-hours of all attempts."""
    phase_step_time_s: dict[str, float] = {}
    """Seconds per step by phase, of runs that train in several phases."""
    nodes: tuple[Observed.Node, ...] = ()
    """The nodes with their ranks and GPUs; empty if they were not sampled."""
    hardware: Observed.Hardware = Observed.Hardware()
    """What the GPUs could do at their clocks, and the energy that they used."""
    stragglers: Observed.Stragglers = Observed.Stragglers()
    """How evenly the ranks worked, and which one the others waited for."""
    checks: tuple[CheckOutcome, ...] = ()
    """Checks that found something or were not possible; the others passed."""
    warnings: tuple[str, ...] = ()
    """Warnings, one line each."""
    digest: str | None = None
    """In the file only: that of all other members, by which llmbx recognizes a result that it wrote."""


def exit_code(result: Result) -> int:
    """Return the documented exit code for a result: 0, 1, 4 or 130. The caller handles 3 (slower) and 5 (unstable)."""
    codes = {"completed": 0, "node_fail": 4, "preempted": 4, "lost": 4}
    if result.status == "cancelled" and result.exit_code == INTERRUPTED:
        return INTERRUPTED
    if result.status == "failed" and result.exit_code == 4:
        return 4
    return codes.get(result.status, 1)
