"""What one run is: the resolved specification that everything downstream reads."""

from __future__ import annotations

from .base import Scalar, Value
from .workload import Checkpointing, Convention, ImageSource, ModelShape, Parallelism


class ProfileSpec(Value, frozen=True):
    """What is to be profiled: steps [start, stop) counted from zero, and which ranks. Frameworks map it to switches.

    `ranks` is "all" or rank numbers and ranges ("0,32,48-51", see `llmbx.ranks`). `name` is the recipe's name for a
    rank's file (see `Recipe.profile_name`). Unless `keep_secrets`, profiled ranks get no secrets: profiles store them.
    """

    start: int
    stop: int
    ranks: str = "first"
    tool: str = "nsys"
    gpu_metrics: bool = False
    name: str = "profile_{job}_{node}_{rank}"
    keep_secrets: bool = False


class TraceSpec(Value, frozen=True):
    """What the communication trace records: subsystems and how many steps the traced run takes."""

    tool: str
    subsystems: tuple[str, ...] = ("INIT", "COLL", "NET")
    file_per_rank: bool = False


class CheckpointSpec(Value, frozen=True):
    """Whether to save at the end, and from where to resume (the parent folder of `weights/`)."""

    save: bool = False
    load: str | None = None


class PreflightSpec(Value, frozen=True):
    """That every node is looked at before the framework starts; `repositories` are those that the ranks read."""

    repositories: tuple[str, ...] = ()


class Peak(Value, frozen=True):
    """The dense peak of one GPU type and dtype: TFLOP/s per GPU, what exactly it is the peak of, and who says so."""

    tflops: float
    name: str
    source: str


class Finding(Value, frozen=True):
    """One broken rule: what is wrong, and what would be right. A `warning` never stops a run."""

    rule: str
    problem: str
    fix: str
    warning: bool = False


class RunSpec(Value, frozen=True):
    """One run, fully resolved: the only thing a framework plugin needs to know.

    `steps` is the total number of training steps. `window` is a policy in the log's own step numbers ("35-44",
    "last", "auto"). `settings` holds the framework's own keys; `env` what the user or the recipe exports to the
    ranks; `secrets` the names (never the values) that are forwarded. `profilers` are the plugins that wrap the launch,
    in order. `scheduler` holds the scheduler's options by long name (an empty value is a switch), `srun` options of its
    launch command, `setup` lines of shell that the job script runs first. `doubts` are findings made while resolving
    (a scale that the catalog does not have, say). `origins` says where each value came from.
    `retries` is how many more attempts a failure of the infrastructure is worth.
    `accept_image_change` admits an image that is not the one first seen.
    `install` is the install's folder, for what a framework keeps for later runs (None: nothing outlives the run).
    """

    plugin: str
    workload: str
    folder: str
    size: str
    dtype: str
    gpu_type: str
    gpus: int
    gpus_per_node: int
    recipe: str
    driver: str
    model: ModelShape
    parallelism: Parallelism
    micro_batch_size: int
    global_batch_size: int
    gradient_accumulation: int
    steps: int
    window: str
    runtime: str
    launcher: str
    mini: bool = False
    proxy: bool = False
    cuda_graphs: bool = False
    recompute_layers: int = 0
    offload_layers: int = 0
    flops_convention: Convention = "full"
    image: ImageSource | None = None
    accept_image_change: bool = False
    environment: str | None = None
    architecture: dict[str, Scalar] = {}
    settings: dict[str, Scalar] = {}
    env: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    walltime_minutes: int | None = None
    stall_timeout_s: float | None = None
    retries: int = 0
    preflight: PreflightSpec | None = None
    profile: ProfileSpec | None = None
    trace: TraceSpec | None = None
    profilers: tuple[str, ...] = ()
    checkpoint: CheckpointSpec = CheckpointSpec()
    checkpoint_facts: Checkpointing | None = None
    gated_tokenizer: str | None = None
    install: str | None = None
    peak: Peak | None = None
    cluster: str | None = None
    scheduler: dict[str, str] = {}
    srun: dict[str, str] = {}
    setup: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    corrected: tuple[str, ...] = ()
    doubts: tuple[Finding, ...] = ()
    origins: dict[str, str] = {}

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
        """The experiment's name, as the seeds' output layout has it."""
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
        return name + ("_nccltrace" if self.trace else "")
