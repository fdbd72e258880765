"""Workloads: their sizes, recipes, configuration rows and published results."""

from __future__ import annotations

from typing import Any, Literal

from .base import Scalar, Value
from .layers import ModelShape
from .parts import Checkpointing, Convention, ImageSource, Kind


class Row(Value, frozen=True):
    """One configuration row of a recipe: the size, dtypes, GPU types and scales it applies to, and its settings."""

    size: str
    """A size of the workload."""
    dtypes: tuple[str, ...]
    """Dtypes that the row applies to."""
    gpu_types: tuple[str, ...]
    """GPU types that the row applies to; "any" matches all."""
    gpus: tuple[str, ...]
    """Scales: single numbers of GPUs ("512"), doubling ranges ("128-1024": 128, 256, 512, 1024), or "any"."""
    gbs: int | str
    """Global batch size in samples: a number, or an expression of GPUs ("GPUs*2", "GPUs/2")."""
    mbs: int = 1
    """Micro batch size in samples."""
    tp: int = 1
    """Tensor parallelism."""
    pp: int = 1
    """Pipeline parallelism."""
    cp: int = 1
    """Context parallelism."""
    ep: int | None = None
    """Expert parallelism."""
    etp: int | None = None
    """Tensor parallelism inside the experts."""
    vp: int | None = None
    """Virtual (interleaved) pipeline stages."""
    fsdp: bool | str | int = False
    """Fully sharded data parallelism: on or off, a degree, or an expression of GPUs."""
    layers: int | None = None
    """Number of layers, if the row's model has fewer than its size."""
    cuda_graphs: bool = False
    """Whether CUDA graphs are used."""
    recompute_layers: int = 0
    """Layers whose activations are recomputed."""
    offload_layers: int = 0
    """Layers whose activations are offloaded to host memory."""
    scaled_from: int | None = None
    """Number of GPUs of the row that upstream's launch scales to these, with the values that it changes."""
    settings: dict[str, Scalar] = {}
    """The framework's own settings, overriding those of the recipe."""
    env: dict[str, str] = {}
    """Environment variables exported to the ranks, overriding those of the recipe."""
    printed: dict[str, Scalar] = {}
    """Values as printed in the source where llmbx derives or corrects them (`dp`, `ga`, or a degree that breaks a
    rule).
    """
    note: str = ""
    """What was corrected, and why."""

    @staticmethod
    def scaled_batch(gbs: int, gpus: int, to: int) -> int | None:
        """Return the global batch on `to` GPUs that keeps the samples of each data-parallel rank; None if not whole.

        The programs of the recipes scale in this way, too; the plugins' tests compare with them.
        """
        return None if gbs * to % gpus else gbs * to // gpus


class Exports(Value, frozen=True):
    """Environment variables that a recipe exports only for some of its runs."""

    env: dict[str, str]
    """The variables."""
    sizes: tuple[str, ...] = ()
    """Sizes that it applies to (empty: all)."""
    dtypes: tuple[str, ...] = ()
    """Dtypes that it applies to (empty: all)."""
    gpu_types: tuple[str, ...] = ()
    """GPU types that it applies to (empty: all)."""
    min_gpus: int = 1
    """Smallest number of GPUs that it applies to."""
    pipelined: bool | None = None
    """True: only with several pipeline stages; false: only with one; None: both."""


class Recipe(Value, frozen=True):
    """A set of rows with the same source, driver and image."""

    name: str
    """Name of the recipe in `--recipe`."""
    title: str
    """One-line description."""
    released: str
    """Release, of numbers and dots ("25.10"). By default a run uses the newest recipe that has its size, dtype, GPU
    type and scale.
    """
    source: str
    """Where the recipe was taken from."""
    driver: str
    """Which of the framework's programs the recipe starts; the plugin defines the names."""
    rows: tuple[Row, ...]
    """Configuration rows."""
    history: str = ""
    """Why upstream does not support it any more, if so; `llmbx list` calls it history."""
    image: ImageSource | None = None
    """Container image of GPU runs."""
    environment: str | None = None
    """Name of the environment lock for runs without a GPU."""
    gpu_environments: tuple[str, ...] = ()
    """Names of the environment locks for GPU runs without a container, if the runtime is asked for; the first is the
    default.
    """
    window: str = "auto"
    """Measurement window, in the step numbers of the log: "35-44" (inclusive), "last" or "auto"."""
    steps: int = 50
    """Training steps of a run."""
    profile_steps: str = "45-50"
    """Profiled steps, from 0; the last one is not included."""
    profile_total_steps: int = 50
    """Training steps of a profiled run."""
    profile_ranks: str = "all"
    """Profiled ranks."""
    profile_name: str = "profile_{job}_{node}_{rank}"
    """File name of a rank's profile. May contain {workload} {size} {dtype} {gpus} {job} {node} {rank} {local_rank}
    {pid}.
    """
    flops_convention: Convention = "full"
    """How the recipe's source counts the FLOPs of attention."""
    walltime_minutes: dict[str, int] = {}
    """Time limit in minutes by size, GPU type or "default", looked up in this order."""
    settings: dict[str, Scalar] = {}
    """The framework's own settings."""
    env: dict[str, str] = {}
    """Environment variables exported to the ranks."""
    exports: tuple[Exports, ...] = ()
    """Environment variables for some of the runs; applied in order, after `env`."""
    launchers: dict[str, dict[str, Any]] = {}
    """Defaults for the settings of launchers, by the name of the launcher's plugin."""

    def exported(self, row: Row, size: str, dtype: str, gpu_type: str, gpus: int, pp: int) -> dict[str, str]:
        """The variables that the recipe exports for this row, size, dtype, GPU type, number of GPUs and stages.

        Later exports override earlier ones, and those of the row override all.
        """
        merged = dict(self.env)
        for exports in self.exports:
            named = ((size, exports.sizes), (dtype, exports.dtypes), (gpu_type, exports.gpu_types))
            chosen = all(not names or name in names for name, names in named)
            if chosen and gpus >= exports.min_gpus and exports.pipelined in (None, pp > 1):
                merged.update(exports.env)
        return merged | row.env


class Size(Value, frozen=True):
    """One size of a workload: the model's shape and its requirements."""

    model: ModelShape
    """Shape of the model."""
    architecture: dict[str, Scalar] = {}
    """Properties beyond the shape (activation, position embedding, router …); the plugin defines the keys."""
    title: str = ""
    """One-line description."""
    parameters: str = ""
    """Number of parameters for display ("8B")."""
    proxy: bool = False
    """Whether it is a part of the model it is named after, without published results; its results are not comparable.
    """
    checkpoint: Checkpointing | None = None
    """Known properties of its checkpoints."""
    gated_tokenizer: str | None = None
    """Gated repository of the tokenizer."""
    minimum_gpus: dict[str, int] = {}
    """Smallest number of GPUs by GPU type, according to the sources."""
    needs_gpu: str = ""
    """Why it cannot run without a GPU, if its rows are for GPUs only; part of an error message."""


ScalarType = Literal["bool", "int", "float", "str"]
"""Names of the types of settings."""


class Setting(Value, frozen=True):
    """A setting of the framework that `--set` can change."""

    default: Scalar
    """Default value; it also defines the type."""
    help: str
    """One-line description."""
    choices: tuple[Scalar, ...] = ()
    """Allowed values; empty: any value of the type."""
    optional: bool = False
    """Whether the value may be None."""
    type: ScalarType | None = None
    """Type of the values; None: that of the default."""


class Reference(Value, frozen=True):
    """A published result. Unknown fields are None."""

    source: str
    """Where it was published: document, table, date."""
    size: str
    """Size of the workload."""
    dtype: str
    """Data type of the training ("bf16", "fp8")."""
    gpu_type: str
    """GPU type ("h100")."""
    gpus: int
    """Number of GPUs."""
    kind: Kind = "table"
    """A row of the recipe's performance tables (table), a worked example or a sample of its tool's output (example), or
    a figure for the same work from another page or release (other).
    """
    step_time_s: float | None = None
    """Mean seconds per step."""
    step_time_std_s: float | None = None
    """Standard deviation of the seconds per step."""
    step_time_from: str | None = None
    """The printed figure that `step_time_s` was computed from; None if it was printed."""
    step_time_rounding_s: float | None = None
    """Largest error of `step_time_s` by rounding in seconds: half a unit of the last printed place."""
    tokens_per_s: float | None = None
    """Tokens per second of all GPUs."""
    tokens_per_s_per_gpu: float | None = None
    """Tokens per second of each GPU."""
    mfu: float | None = None
    """Model FLOPs utilization, a fraction."""
    days_per_1t_tokens: float | None = None
    """Days for 10^12 tokens."""
    tflops_per_gpu: float | None = None
    """Model TFLOP/s per GPU."""
    tflops_per_gpu_std: float | None = None
    """Standard deviation of `tflops_per_gpu`."""
    global_batch_size: int | None = None
    """Samples per step."""
    recipe: str | None = None
    """Name of the recipe."""
    peak_tflops: float | None = None
    """Peak TFLOP/s of one GPU that the source computes `mfu` with."""
    model_flops: float | None = None
    """FLOPs of one sample that the source computes `mfu` with."""
    convention: Convention = "full"
    """How the source counts the FLOPs of attention."""
    sequence_length: int | None = None
    """Tokens of a sample; needed only if no workload of the catalog defines it."""
    disputed: str | None = None
    """Why the row is disputed; None: it is not."""
    layout: dict[str, int] = {}
    """Degrees of parallelism and micro-batch size (tp, pp, cp, ep, vp, mbs) of the published run, where the recipe has
    changed since.
    """


class Example(Value, frozen=True):
    """A statement in the text of a source that can be recomputed. `text` is the statement as printed.

    An equation in `text` (`a = b`, or a chain of them) is evaluated; `formula` replaces its left side if that is not
    plain arithmetic. `states` holds the values that the text states for a run, by name: step_time_s, tokens_per_s,
    mfu_percent, days_per_1t_tokens, global_batch_size, peak_tflops, model_flops (of one sample), window_first,
    window_last. They are compared with the tables, the peaks, the formula and the recipe's window. `note` says what
    cannot be found by recomputing.
    """

    source: str
    """Where it was published."""
    text: str
    """The statement as printed."""
    formula: str | None = None
    """What replaces the left side of an equation that is not plain arithmetic."""
    states: dict[str, float] = {}
    """Values that the text states for a run, by name."""
    recipe: str | None = None
    """Name of the recipe."""
    size: str | None = None
    """Size of the workload."""
    dtype: str | None = None
    """Data type of the training."""
    gpu_type: str | None = None
    """GPU type."""
    gpus: int | None = None
    """Number of GPUs."""
    note: str | None = None
    """What cannot be found by recomputing."""


class Workload(Value, frozen=True):
    """A workload that `llmbx run` can run; the top level of a catalog file."""

    name: str
    """Name on the command line."""
    title: str
    """One-line description."""
    folder: str
    """Folder name, with which the names of its experiments start."""
    sizes: dict[str, Size]
    """Sizes by name; `mini` is the one for machines without GPUs."""
    recipes: tuple[Recipe, ...]
    """Recipes."""
    aliases: tuple[str, ...] = ()
    """Alternative names."""
    plugin: str = ""
    """Plugin that registered the workload; set by core."""
    default_size: str | None = None
    """Size of a run that sets none."""
    default_dtype: str | None = None
    """Dtype of a run that sets none."""
    default_gpu_type: str | None = None
    """GPU type of a run if neither the user nor the cluster profile sets one."""
    minimum_gpu_memory_gb: dict[str, int] = {}
    """Minimum GPU memory in gigabytes by GPU type, according to the sources."""
    settings: dict[str, Setting] = {}
    """Settings of the framework that `--set` can change."""
    profilers: tuple[str, ...] = ()
    """Profilers that record steps of this workload's runs, best first: without `--tool`, `llmbx profile` uses the first
    one that this machine can use. Empty: the first installed profiler that records steps.
    """
    references: tuple[Reference, ...] = ()
    """Published results (see published.md)."""
    examples: tuple[Example, ...] = ()
    """Statements of a source that can be recomputed (see published.md)."""
