"""Resolved specification of a run, the input of every later stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from .base import Positive, Rate, Scalar, Value
from .finding import Finding
from .layers import ModelShape
from .parts import Checkpointing, Convention, ImageSource, Kind, Parallelism
from .settings import Handling

if TYPE_CHECKING:
    from .workload import Reference, Workload

KINDS = get_args(Kind)
"""Kinds of published results, the preferred ones first."""

SAME = (
    ("workload", "workload"),
    ("size", "size"),
    ("dtype", "dtype"),
    ("gpu_type", "GPU type"),
    ("gpus", "number of GPUs"),
    ("layout_of", "GPU type of the layout"),
    ("scaled_from", "number of GPUs that the layout was scaled from"),
    ("global_batch_size", "global batch size"),
)
"""Fields of a specification that two runs must have in common, and how messages call them."""


class ProfileSpec(Value, frozen=True):
    """Which steps and ranks are profiled. Frameworks map this to their own options."""

    start: int
    """First profiled step, from 0."""
    stop: int
    """Step before which profiling ends, from 0: 45 to 50 are five steps."""
    tool: str
    """Name of the profiler's plugin."""
    ranks: str = "first"
    """Profiled ranks: "all", or numbers, ranges and words ("0,32,48-51", "first"; see `llmbx.resolve.ranks`)."""
    name: str = "profile_{job}_{node}_{rank}"
    """File name of a rank's profile (see `Recipe.profile_name`)."""
    keep_secrets: bool = False
    """Whether profiled ranks get the secrets even though profiles store the environment of a process."""


class TraceSpec(Value, frozen=True):
    """Tracing of a run. What is recorded is set by the settings of the tracing plugin."""

    tool: str
    """Name of the tracing plugin."""


class CheckpointSpec(Value, frozen=True):
    """Checkpoints that a run saves and loads."""

    save: bool = False
    """Whether the last step writes a checkpoint."""
    load: str | None = None
    """Folder to resume from (the parent of `weights/`)."""


class Peak(Value, frozen=True):
    """Dense peak throughput of one GPU type and dtype."""

    tflops: Rate
    """TFLOP/s per GPU."""
    name: str
    """Name of the peak, with the GPU and the dtype."""
    source: str
    """Source of the value."""
    clock_mhz: float | None = None
    """Clock of the GPU for which the value holds."""


class RunSpec(Handling, frozen=True, kw_only=True):
    """One run, fully resolved: everything that a framework plugin needs to know."""

    plugin: str
    """The framework's plugin, by its entry-point name."""
    workload: str
    """Name of the workload."""
    folder: str
    """Folder name of the workload, with which the experiment's name starts."""
    size: str
    """Model size (8b, mini)."""
    dtype: str
    """Data type (bf16, fp8)."""
    gpu_type: str
    """GPU type (h100), or "cpu"."""
    gpus: Positive
    """Total number of GPUs; for a CPU run, of the processes or devices that replace them."""
    gpus_per_node: Positive
    """GPUs per node."""
    recipe: str
    """Name of the recipe."""
    driver: str
    """Which of the framework's programs the recipe starts; the plugin defines the names."""
    layout_of: str | None = None
    """GPU type whose row was borrowed, because the recipes have none for the run's own."""
    scaled_from: int | None = None
    """Number of GPUs of the row, if it was scaled to the run's."""
    model: ModelShape
    """Shape of the model, including changes by `--set`."""
    parallelism: Parallelism
    """Degrees of parallelism; `dp` follows from the others and the number of GPUs."""
    micro_batch_size: Positive
    """Samples per forward pass of one model replica."""
    global_batch_size: Positive
    """Samples per training step, over all GPUs."""
    gradient_accumulation: Positive
    """Forward passes per step: global batch size / (micro batch size x DP)."""
    steps: Positive
    """Total number of training steps."""
    window: str
    """Measurement window, in the log's own step numbers ("35-44", "last", "auto")."""
    runtime: str
    """Name of the runtime; "auto" until one is chosen."""
    launcher: str
    """Name of the launcher."""
    mini: bool = False
    """Whether the run uses the small model for machines without GPUs."""
    proxy: bool = False
    """Whether the model is a part or a variant of the size it is named after; its results are not comparable."""
    cuda_graphs: bool = False
    """Whether CUDA graphs are used (CG)."""
    recompute_layers: int = 0
    """Layers whose activations are recomputed (RL)."""
    offload_layers: int = 0
    """Layers whose activations are offloaded to host memory (OL)."""
    flops_convention: Convention = "full"
    """How the recipe counts the FLOPs of attention."""
    image: ImageSource | None = None
    """Container image set by the recipe or the user."""
    environment: str | None = None
    """Name of the recipe's Python environment for runs without a GPU, if it has one."""
    gpu_environments: tuple[str, ...] = ()
    """Names of the recipe's Python environments for GPU runs without a container; the first is the default."""
    architecture: dict[str, Scalar] = {}
    """Properties of the model beyond its shape; the plugin defines the keys (see `Size.architecture`)."""
    settings: dict[str, Scalar] = {}
    """The framework's own settings: declared defaults, overridden by the recipe, the row and `--set`, in this order."""
    env: dict[str, str] = {}
    """Environment variables that the recipe, the cluster profile or the user exports to the ranks."""
    secrets: tuple[str, ...] = ()
    """Names (never values) of the secrets that are forwarded to the ranks."""
    mounts: tuple[str, ...] = ()
    """The user's container mounts: SOURCE[:TARGET][:ro]."""
    walltime_minutes: int | None = None
    """Time limit in minutes."""
    profile: ProfileSpec | None = None
    """Profiled steps and ranks; None: the run is not profiled."""
    trace: TraceSpec | None = None
    """Tracing; None: the run is not traced."""
    profilers: tuple[str, ...] = ()
    """Plugins that wrap the launch, in order."""
    disturbed: tuple[str, ...] = ()
    """Reasons why these profilers make the results incomparable, apart from profiling and tracing themselves."""
    inflated: tuple[str, ...] = ()
    """Warnings about profilers that change the memory of the run."""
    checkpoint: CheckpointSpec = CheckpointSpec()
    """Checkpoints to save and load."""
    checkpoint_facts: Checkpointing | None = None
    """Known properties of the size's checkpoints."""
    gated_tokenizer: str | None = None
    """Gated repository of the tokenizer."""
    repositories: tuple[str, ...] = ()
    """Gated model-hub repositories that the ranks read; from the framework's `ImageRequest`, once it is known."""
    install: str | None = None
    """Install folder, for files that a framework caches between runs; None: nothing is cached."""
    peak: Peak | None = None
    """Dense peak for the MFU, if known."""
    nvlink_domain_nodes: int | None = None
    """Nodes that NVLink connects, if the GPU type has NVLink between nodes."""
    cluster: str | None = None
    """Name of the cluster profile."""
    plugin_settings: dict[str, dict[str, Any]] = {}
    """Explicitly set values of the plugins' settings, by plugin and field."""
    setup: tuple[str, ...] = ()
    """Shell lines at the start of the job script."""
    tags: tuple[str, ...] = ()
    """Tags of the run."""
    forced: tuple[str, ...] = ()
    """Rules overridden by `--force`."""
    corrected: tuple[str, ...] = ()
    """Corrections that the catalog makes to its source."""
    findings: tuple[Finding, ...] = ()
    """Findings made while resolving, for example a scale that is not in the catalog."""
    origins: dict[str, str] = {}
    """Origin of each value, by field."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return max(1, -(-self.gpus // self.gpus_per_node))

    @property
    def tokens_per_step(self) -> int:
        """Tokens per training step: sequence length x global batch size."""
        return self.model.sequence_length * self.global_batch_size

    @property
    def experiment(self) -> str:
        """Name of the experiment, as in the output layout of the recipes."""
        p = self.parallelism
        config = f"tp{p.tp}_pp{p.pp}_cp{p.cp}_vp{p.vp or 1}"
        if p.ep is not None:
            config += f"_ep{p.ep}"
        if p.etp is not None:
            config += f"_etp{p.etp}"
        if p.fsdp:
            config += "_fsdp" if p.fsdp is True else f"_fsdp{p.fsdp}"
        config += f"_mbs{self.micro_batch_size}_gbs{self.global_batch_size}"
        name = f"{self.folder}_{self.size}_{self.dtype}_{self.gpus}_{config}"
        return name + (f"_{self.trace.tool}" if self.trace else "")

    @property
    def row_gpu_type(self) -> str:
        """GPU type of the recipe's row: the run's, unless the row was borrowed."""
        return self.layout_of or self.gpu_type

    @property
    def row_gpus(self) -> int:
        """Number of GPUs of the recipe's row: the run's, unless the row was scaled."""
        return self.scaled_from or self.gpus

    @property
    def derived(self) -> str | None:
        """How the run's row was derived from one that the recipe has; None if the recipe has it."""
        marks = [f"layout of {self.layout_of}"] if self.layout_of else []
        marks += [f"scaled from {self.scaled_from} GPUs"] if self.scaled_from else []
        return f"{', '.join(marks)}; no published figure for {self.gpus} x {self.gpu_type}" if marks else None

    @property
    def configuration_key(self) -> str:
        """Name of its row: size, dtype, GPU type and number of GPUs ("8b/fp8/h100/8")."""
        return f"{self.size}/{self.dtype}/{self.row_gpu_type}/{self.row_gpus}"

    def nearest_row(self, workload: Workload) -> Reference | None:
        """The published result for the run's size, dtype, GPU type and scale with the fewest differences; None if there
        is none.

        Among equals, rows of the recipe's tables are preferred to its worked examples, which sources round and copy
        from older releases, and both to figures that were published elsewhere.
        """
        configuration = (self.size, self.dtype, self.gpu_type, self.gpus)
        rows = [row for row in workload.references if (row.size, row.dtype, row.gpu_type, row.gpus) == configuration]
        return min(
            rows,
            key=lambda row: (row.step_time_s is None, len(self.row_differences(row)), KINDS.index(row.kind)),
            default=None,
        )

    def exact_row(self, workload: Workload) -> Reference | None:
        """The published result for exactly the work of the run: same recipe, model, batch size and sequence length."""
        row = self.nearest_row(workload)
        comparable = row is not None and not self.proxy and not self.derived and not self.row_differences(row)
        return row if comparable else None

    def why_no_figure(self, workload: Workload) -> str | None:
        """Why no published step time is for exactly the work of the run, in one line; None if there is one."""
        row = self.nearest_row(workload)
        if self.mini:
            return "a mini is not comparable with published figures"
        if self.derived:
            return self.derived
        if row is None or row.step_time_s is None:
            return f"no published figures for {self.workload} {self.size} {self.dtype} on {self.gpus} x {self.gpu_type}"
        if self.proxy:
            return "a proxy is not comparable with published figures"
        differences = self.row_differences(row)
        return f"the published figures are those of another job: {'; '.join(differences)}" if differences else None

    def row_differences(self, row: Reference) -> list[str]:
        """How the run's work differs from a published row; empty if it agrees in everything that the row specifies."""
        pairs = (
            ("recipe", self.recipe, row.recipe),
            ("global batch size", self.global_batch_size, row.global_batch_size),
            ("sequence length", self.model.sequence_length, row.sequence_length),
            *((name.upper(), self._degree(name), degree) for name, degree in row.layout.items()),
        )
        return [
            f"the {words} differs ({theirs} was published, {ours} was run)"
            for words, ours, theirs in pairs
            if theirs is not None and ours != theirs
        ]

    def _degree(self, name: str) -> int:
        """A degree of parallelism, or the micro-batch size (`mbs`)."""
        if name == "mbs":
            return self.micro_batch_size
        return getattr(self.parallelism, name) or 1

    def work_differences(self, other: RunSpec) -> list[str]:
        """Differences that make the speeds of two runs incomparable; empty if they do the same work."""
        pairs = [(label, getattr(self, name), getattr(other, name)) for name, label in SAME]
        shapes = [
            (name, getattr(self.model, name), getattr(other.model, name)) for name in ModelShape.__struct_fields__
        ]
        return [
            *(f"the {label} differs ({own} and {others})" for label, own, others in pairs if own != others),
            *(f"the models differ in {name} ({own} and {others})" for name, own, others in shapes if own != others),
        ]
