"""What one run is: the resolved specification that everything downstream reads."""

from __future__ import annotations

from typing import Any

from .base import Scalar, Value
from .workload import Checkpointing, Convention, ImageSource, ModelShape, Parallelism


class ProfileSpec(Value, frozen=True):
    """What is to be profiled. Frameworks map it to their own switches."""

    start: int
    """First profiled step, counted from 0."""
    stop: int
    """The step before which profiling ends, counted from 0: 45 to 50 are five steps."""
    tool: str
    """The profiler: the name of its plugin."""
    ranks: str = "first"
    """Which ranks are profiled: "all", or numbers, ranges and words ("0,32,48-51", "first"; `llmbx.resolve.ranks`)."""
    gpu_metrics: bool = False
    """Whether the GPUs' own counters are sampled."""
    name: str = "profile_{job}_{node}_{rank}"
    """The recipe's name for a rank's file (see `Recipe.profile_name`)."""
    keep_secrets: bool = False
    """Whether profiled ranks get the secrets all the same: profiles store a process's environment."""


class TraceSpec(Value, frozen=True):
    """That the run is traced. What is recorded is in the settings of the plugin that traces."""

    tool: str
    """The plugin that traces."""


class CheckpointSpec(Value, frozen=True):
    """Whether to save at the end, and from where to resume."""

    save: bool = False
    """Whether the last step writes a checkpoint."""
    load: str | None = None
    """The folder to resume from (the parent of `weights/`)."""


class PreflightSpec(Value, frozen=True):
    """That every node is looked at before the framework starts."""

    repositories: tuple[str, ...] = ()
    """Gated repositories that the ranks will read."""


class Peak(Value, frozen=True):
    """The dense peak of one GPU type and dtype."""

    tflops: float
    """TFLOP/s per GPU."""
    name: str
    """What exactly it is the peak of."""
    source: str
    """Who says so."""


class Finding(Value, frozen=True):
    """One broken rule: what is wrong, and what would be right."""

    rule: str
    """A word for the rule, recorded where `--force` overrides it."""
    problem: str
    """What is wrong, in a few words."""
    fix: str
    """What would be right, with the option to give."""
    warning: bool = False
    """Whether it is only told, and never stops a run."""


class RunSpec(Value, frozen=True):
    """One run, fully resolved: the only thing a framework plugin needs to know."""

    plugin: str
    """The framework's plugin, by its entry point."""
    workload: str
    """The workload's name."""
    folder: str
    """The workload's folder name, with which the experiment's name begins."""
    size: str
    """The size (8b, mini)."""
    dtype: str
    """The dtype (bf16, fp8)."""
    gpu_type: str
    """The GPU type (h100), or "cpu"."""
    gpus: int
    """GPUs in all; of a run on a CPU the processes or devices in their place."""
    gpus_per_node: int
    """GPUs of one node."""
    recipe: str
    """The recipe's name."""
    driver: str
    """Which of the framework's programs the recipe starts, in the plugin's own words."""
    model: ModelShape
    """The model's shape, with what `--set` changed."""
    parallelism: Parallelism
    """Degrees of parallelism; `dp` follows from the others and the number of GPUs."""
    micro_batch_size: int
    """Samples of one pass of one model replica."""
    global_batch_size: int
    """Samples of one training step, over all GPUs."""
    gradient_accumulation: int
    """Passes in one step: global batch / (micro batch x DP)."""
    steps: int
    """Training steps in all."""
    window: str
    """The measuring window, a policy in the log's own step numbers ("35-44", "last", "auto")."""
    runtime: str
    """The runtime's name; "auto" until one is chosen."""
    launcher: str
    """The launcher's name."""
    mini: bool = False
    """Whether it is the small stand-in that a machine without GPUs runs."""
    proxy: bool = False
    """Whether it is a part or a changed form of the size it is named after, and compares with nothing."""
    cuda_graphs: bool = False
    """Whether CUDA graphs are used (CG)."""
    recompute_layers: int = 0
    """Layers whose activations are computed again (RL)."""
    offload_layers: int = 0
    """Layers whose activations are kept in the host's memory (OL)."""
    flops_convention: Convention = "full"
    """How the recipe counts attention's FLOPs."""
    image: ImageSource | None = None
    """The container image that the recipe or the user names."""
    accept_image_change: bool = False
    """Whether an image that is not the one first seen is admitted."""
    environment: str | None = None
    """The name of the recipe's environment, where it has one."""
    architecture: dict[str, Scalar] = {}
    """What the shape does not say of the model, in the plugin's own words (see `Size.architecture`)."""
    settings: dict[str, Scalar] = {}
    """The framework's own keys: declared defaults, the recipe's, the row's, then `--set`."""
    env: dict[str, str] = {}
    """Variables that the recipe, the cluster profile or the user exports to the ranks."""
    secrets: tuple[str, ...] = ()
    """Names, never values, of the secrets that are forwarded to the ranks."""
    mounts: tuple[str, ...] = ()
    """The user's folders for the container: SOURCE[:TARGET][:ro]."""
    walltime_minutes: int | None = None
    """The time limit."""
    stall_timeout_s: float | None = None
    """Seconds without a line of log after which the run is stopped."""
    retries: int = 0
    """How many more attempts a failure of the infrastructure is worth."""
    preflight: PreflightSpec | None = None
    """That the nodes are looked at first, where they are."""
    profile: ProfileSpec | None = None
    """What is profiled, where something is."""
    trace: TraceSpec | None = None
    """What is traced, where something is."""
    profilers: tuple[str, ...] = ()
    """The plugins that wrap the launch, in order."""
    disturbed: tuple[str, ...] = ()
    """Why these make the run's figures incomparable, beyond that it is profiled or traced."""
    checkpoint: CheckpointSpec = CheckpointSpec()
    """Saving and resuming."""
    checkpoint_facts: Checkpointing | None = None
    """What is known of the size's checkpoints."""
    gated_tokenizer: str | None = None
    """The gated repository that the tokenizer lies in."""
    install: str | None = None
    """The install's folder, for what a framework keeps for later runs; None: nothing outlives the run."""
    peak: Peak | None = None
    """The dense peak for MFU, where it is known."""
    cluster: str | None = None
    """The cluster profile's name."""
    plugin_settings: dict[str, dict[str, Any]] = {}
    """What was given of the plugins' settings, by plugin and field."""
    setup: tuple[str, ...] = ()
    """Lines of shell that the job script runs first."""
    tags: tuple[str, ...] = ()
    """The run's tags."""
    forced: tuple[str, ...] = ()
    """Rules that `--force` overrode."""
    corrected: tuple[str, ...] = ()
    """What the catalog corrects of its source."""
    doubts: tuple[Finding, ...] = ()
    """Findings made while resolving (a scale that the catalog does not have, say)."""
    origins: dict[str, str] = {}
    """Where each value came from."""

    @property
    def nodes(self) -> int:
        """How many machines the run takes."""
        return max(1, -(-self.gpus // self.gpus_per_node))

    @property
    def tokens_per_step(self) -> int:
        """Tokens in one training step: sequence length x global batch size."""
        return self.model.sequence_length * self.global_batch_size

    @property
    def experiment(self) -> str:
        """The experiment's name, as the recipes' output layout has it."""
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
