"""What can be run: workloads, their sizes, recipes, configuration rows and published figures."""

from __future__ import annotations

from typing import Literal

from .base import Scalar, Value

Convention = Literal["full", "causal"]
"""How attention FLOPs are counted: the whole S x S matrix, or the half that a causal mask leaves."""


class ModelShape(Value, frozen=True):
    """The sizes of a transformer. Lengths are in tokens, widths in elements."""

    layers: int
    """Layers."""
    hidden_size: int
    """The width of a token's state."""
    ffn_hidden_size: int
    """The width that is active per token in a dense layer's feed-forward part."""
    heads: int
    """Attention heads."""
    query_groups: int
    """Heads of keys and values."""
    vocab_size: int
    """Tokens of the vocabulary."""
    sequence_length: int
    """Tokens of a sample."""
    experts: int | None = None
    """Experts of a layer; None for a dense model."""
    experts_per_token: int | None = None
    """Experts that a token goes through."""
    moe_ffn_hidden_size: int | None = None
    """The width of one expert, where it is another."""
    shared_ffn_hidden_size: int | None = None
    """The width of the expert that all tokens go through."""
    moe_layer_every: int | None = None
    """Every how many layers one has experts."""


class Parallelism(Value, frozen=True):
    """Degrees of parallelism in the letters of the recipes; None where a letter does not apply."""

    tp: int = 1
    """Tensor."""
    pp: int = 1
    """Pipeline."""
    cp: int = 1
    """Context."""
    ep: int | None = None
    """Expert."""
    etp: int | None = None
    """Tensor, inside the experts."""
    dp: int = 1
    """Data; it follows from the others and the number of GPUs."""
    vp: int | None = None
    """Interleaved stages of the pipeline."""
    fsdp: bool | int = False
    """Sharding over the data-parallel group: a switch, or a degree for frameworks that take one."""


class ImageSource(Value, frozen=True):
    """A container image by reference."""

    reference: str
    """In enroot's spelling (`nvcr.io#nvidia/nemo:25.04.01`)."""
    digest: str | None = None
    """The digest that it must have."""
    source: str = ""
    """Who names it."""


class Row(Value, frozen=True):
    """One configuration row of a recipe: for which size, dtypes, GPU types and scales, and with what settings."""

    size: str
    """A size of the workload."""
    dtypes: tuple[str, ...]
    """The dtypes that it holds for."""
    gpu_types: tuple[str, ...]
    """The GPU types that it holds for; "any" takes all."""
    gpus: tuple[str, ...]
    """Scales: single ones ("512"), doubling ranges ("128-1024": 128, 256, 512, 1024), or "any"."""
    gbs: int | str
    """Global batch size in samples: a number, or an expression of GPUs ("GPUs*2", "GPUs/2")."""
    mbs: int = 1
    """Micro batch size."""
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
    """Interleaved stages of the pipeline."""
    fsdp: bool | str | int = False
    """Sharding: a switch, a degree, or an expression of GPUs."""
    layers: int | None = None
    """Layers, where the row's model has fewer than its size."""
    cuda_graphs: bool = False
    """Whether CUDA graphs are used."""
    recompute_layers: int = 0
    """Layers whose activations are computed again."""
    offload_layers: int = 0
    """Layers whose activations are kept in the host's memory."""
    settings: dict[str, Scalar] = {}
    """Values of the framework's own keys, on top of the recipe's."""
    printed: dict[str, Scalar] = {}
    """What the source prints where llmbx derives or corrects the value (`dp`, `ga`, or a letter that breaks a rule)."""
    note: str = ""
    """What was corrected, and why."""


class Exports(Value, frozen=True):
    """Environment variables that a recipe exports only for some of its runs."""

    env: dict[str, str]
    """The variables."""
    sizes: tuple[str, ...] = ()
    """For these sizes (empty: all)."""
    dtypes: tuple[str, ...] = ()
    """For these dtypes (empty: all)."""
    gpu_types: tuple[str, ...] = ()
    """For these GPU types (empty: all)."""
    pipelined: bool | None = None
    """Only with more than one pipeline stage (true) or with one (false)."""


class Recipe(Value, frozen=True):
    """A family of rows that belong together: one source, one driver, one image."""

    name: str
    """Its name in `--recipe`."""
    title: str
    """One line for people."""
    released: str
    """Numbers and dots ("25.10"): the newest recipe that has the asked size, dtype, GPU type and scale is the default.
    """
    source: str
    """Where it was taken from."""
    driver: str
    """Which of the framework's programs it starts, in the plugin's own words."""
    rows: tuple[Row, ...]
    """Its configurations."""
    image: ImageSource | None = None
    """The image that its runs on GPUs take."""
    environment: str | None = None
    """The lock's name, for runs without a container."""
    window: str = "auto"
    """Its measuring window, in the step numbers its log prints: "35-44" (both count), "last" or "auto"."""
    steps: int = 50
    """Training steps of a run."""
    profile_steps: str = "45-50"
    """The steps that are profiled: from 0, the last one not counted."""
    profile_total_steps: int = 50
    """Training steps of a profiled run."""
    profile_ranks: str = "all"
    """The ranks that are profiled."""
    profile_name: str = "profile_{job}_{node}_{rank}"
    """A rank's file. May hold {workload} {size} {dtype} {gpus} {job} {node} {rank} {local_rank} {pid}."""
    flops_convention: Convention = "full"
    """How its source counts attention's FLOPs."""
    walltime_minutes: dict[str, int] = {}
    """The time limit, by size, GPU type or "default", looked up in that order."""
    settings: dict[str, Scalar] = {}
    """Values of the framework's own keys."""
    env: dict[str, str] = {}
    """Variables that are exported to the ranks."""
    exports: tuple[Exports, ...] = ()
    """More of them, in order, for those runs that they apply to."""


class Checkpointing(Value, frozen=True):
    """What is known of a size's checkpoints."""

    size_gb: float
    """Gigabytes on disk."""
    save_gpus: tuple[int, int]
    """The smallest and the largest scale at which saving is supported."""
    load_min_gpus: int
    """The smallest scale at which loading is supported."""


class Size(Value, frozen=True):
    """One size of a workload: its shape, and what it needs."""

    model: ModelShape
    """The model's shape."""
    architecture: dict[str, Scalar] = {}
    """What the shape does not say (activation, position embedding, router …), in the plugin's own words."""
    title: str = ""
    """One line for people."""
    parameters: str = ""
    """How many, as people say it ("8B")."""
    proxy: bool = False
    """Whether it is a part of the model that it is named after, of which nothing was published: it compares with
    nothing.
    """
    checkpoint: Checkpointing | None = None
    """What is known of its checkpoints."""
    gated_tokenizer: str | None = None
    """The gated repository that its tokenizer lies in."""
    minimum_gpus: dict[str, int] = {}
    """The smallest number of GPUs by GPU type, as the sources state it."""


class Setting(Value, frozen=True):
    """A framework's own `--set` key."""

    default: Scalar
    """Its default, which also says its type."""
    help: str
    """One line."""
    choices: tuple[Scalar, ...] = ()
    """The values that are admitted, where they are closed."""
    optional: bool = False
    """Whether it may be none."""


class Reference(Value, frozen=True):
    """A published figure. Unknown members are None; `mfu` is a fraction. `disputed` says why the row is doubted.

    `kind` tells a row of a performance table from a worked example or a sample of a tool's output. `peak_tflops` and
    `model_flops` (of one sample) are those that the source computes `mfu` with. `sequence_length` (tokens) is needed
    only where no workload of the catalog says it.
    """

    source: str
    size: str
    dtype: str
    gpu_type: str
    gpus: int
    kind: Literal["table", "example"] = "table"
    step_time_s: float | None = None
    step_time_std_s: float | None = None
    tokens_per_s: float | None = None
    mfu: float | None = None
    days_per_1t_tokens: float | None = None
    tflops_per_gpu: float | None = None
    tflops_per_gpu_std: float | None = None
    global_batch_size: int | None = None
    recipe: str | None = None
    peak_tflops: float | None = None
    model_flops: float | None = None
    convention: Convention = "full"
    sequence_length: int | None = None
    disputed: str | None = None


class Example(Value, frozen=True):
    """A statement of a source's prose that can be recomputed. `text` is the statement as printed.

    An equation in `text` (`a = b`, or a chain of them) is computed; `formula` stands for its left side where that is
    not plain arithmetic. `states` holds figures that the text gives of a run, by name: step_time_s, tokens_per_s,
    mfu_percent, days_per_1t_tokens, global_batch_size, peak_tflops, model_flops (of one sample), window_first,
    window_last. They are held against the tables, the peaks, the formula and the recipe's window. `note` says what the
    arithmetic cannot find.
    """

    source: str
    text: str
    formula: str | None = None
    states: dict[str, float] = {}
    recipe: str | None = None
    size: str | None = None
    dtype: str | None = None
    gpu_type: str | None = None
    gpus: int | None = None
    note: str | None = None


class Workload(Value, frozen=True):
    """A thing that `llmbx run` can run: the top of a catalog file."""

    name: str
    """Its name on the command line."""
    title: str
    """One line for people."""
    folder: str
    """The name of its folder and the beginning of its experiments' names."""
    sizes: dict[str, Size]
    """Its sizes by name; `mini` is what a machine without GPUs runs."""
    recipes: tuple[Recipe, ...]
    """Its recipes."""
    aliases: tuple[str, ...] = ()
    """Other names that it answers to."""
    plugin: str = ""
    """Filled in by core, with the plugin that registered it."""
    default_size: str | None = None
    """The size of a run that names none."""
    default_dtype: str | None = None
    """The dtype of a run that names none."""
    default_gpu_type: str | None = None
    """The GPU type of a run for a cluster that names none."""
    minimum_gpu_memory_gb: dict[str, int] = {}
    """The least memory by GPU type, as the sources state it."""
    settings: dict[str, Setting] = {}
    """The keys of the framework's own that `--set` may change."""
    references: tuple[Reference, ...] = ()
    """Published figures (see published.md)."""
    examples: tuple[Example, ...] = ()
    """Statements of a source that can be recomputed (see published.md)."""
