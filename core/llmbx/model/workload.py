"""What can be run: workloads, their sizes, recipes, configuration rows and published figures."""

from __future__ import annotations

from typing import Literal

from .base import Scalar, Value

Convention = Literal["full", "causal"]
"""How attention FLOPs are counted: the whole S x S matrix, or the half that a causal mask leaves."""


class ModelShape(Value, frozen=True):
    """The sizes of a transformer. Lengths are in tokens, widths in elements.

    `ffn_hidden_size` is the width that is active per token in a dense layer; a mixture of experts adds
    `experts`, `experts_per_token` and, where they differ, `moe_ffn_hidden_size` and `shared_ffn_hidden_size`.
    """

    layers: int
    hidden_size: int
    ffn_hidden_size: int
    heads: int
    query_groups: int
    vocab_size: int
    sequence_length: int
    experts: int | None = None
    experts_per_token: int | None = None
    moe_ffn_hidden_size: int | None = None
    shared_ffn_hidden_size: int | None = None
    moe_layer_every: int | None = None


class Parallelism(Value, frozen=True):
    """Degrees of parallelism in the letters of the recipes; None where a letter does not apply.

    `fsdp` is a switch for frameworks that shard over the whole data-parallel group, a degree for those that take one.
    """

    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int | None = None
    etp: int | None = None
    dp: int = 1
    vp: int | None = None
    fsdp: bool | int = False


class ImageSource(Value, frozen=True):
    """A container image by reference, in enroot's spelling (`nvcr.io#nvidia/nemo:25.04.01`)."""

    reference: str
    digest: str | None = None
    source: str = ""


class Row(Value, frozen=True):
    """One configuration row of a recipe: for which size, dtypes, GPU types and scales, and with what settings.

    `gpus` holds single scales ("512"), doubling ranges ("128-1024", every power-of-two multiple of the first) or
    "any"; `gpu_types` may be "any" too. `gbs` is a number or an expression of GPUs ("GPUs*2", "GPUs/2"). `printed`
    keeps what the source prints where llmbx derives or corrects the value (`dp`, `ga`, or a letter that breaks a
    rule); `note` says what was corrected and why.
    """

    size: str
    dtypes: tuple[str, ...]
    gpu_types: tuple[str, ...]
    gpus: tuple[str, ...]
    gbs: int | str
    mbs: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int | None = None
    etp: int | None = None
    vp: int | None = None
    fsdp: bool | str | int = False
    layers: int | None = None
    cuda_graphs: bool = False
    recompute_layers: int = 0
    offload_layers: int = 0
    settings: dict[str, Scalar] = {}
    printed: dict[str, Scalar] = {}
    note: str = ""


class Exports(Value, frozen=True):
    """Environment variables that a recipe exports only for these sizes, dtypes and GPU types (empty: for all)."""

    env: dict[str, str]
    sizes: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    gpu_types: tuple[str, ...] = ()


class Recipe(Value, frozen=True):
    """A family of rows that belong together: one source, one driver, one image.

    `released` orders recipes ("25.10"); the newest that has the asked size, dtype, GPU type and scale is the default.
    `window` is the recipe's own measuring window (see `WindowPolicy`), in the step numbers its log prints.
    `profile_name` may hold {workload} {size} {dtype} {gpus} {job} {node} {rank} {local_rank} {pid}.
    `walltime_minutes` is by size, GPU type or "default", looked up in that order. `env` is exported to the ranks, and
    then, in order, the `exports` that apply.
    """

    name: str
    title: str
    released: str
    source: str
    driver: str
    rows: tuple[Row, ...]
    image: ImageSource | None = None
    environment: str | None = None
    window: str = "auto"
    steps: int = 50
    profile_steps: str = "45-50"
    profile_total_steps: int = 50
    profile_ranks: str = "all"
    profile_name: str = "profile_{job}_{node}_{rank}"
    flops_convention: Convention = "full"
    walltime_minutes: dict[str, int] = {}
    settings: dict[str, Scalar] = {}
    env: dict[str, str] = {}
    exports: tuple[Exports, ...] = ()


class Checkpointing(Value, frozen=True):
    """What is known of a size's checkpoints: bytes on disk, scales at which saving and loading are supported."""

    size_gb: float
    save_gpus: tuple[int, int]
    load_min_gpus: int


class Size(Value, frozen=True):
    """One size of a workload: its shape, and what it needs.

    `architecture` holds what the shape does not (activation, position embedding, router …) in the plugin's own words.
    `minimum_gpus` is by GPU type, as the sources state it. A `proxy` is a part of the model that it is named after, of
    which nothing was published: it compares with nothing.
    """

    model: ModelShape
    architecture: dict[str, Scalar] = {}
    title: str = ""
    parameters: str = ""
    proxy: bool = False
    checkpoint: Checkpointing | None = None
    gated_tokenizer: str | None = None
    minimum_gpus: dict[str, int] = {}


class Setting(Value, frozen=True):
    """A framework's own `--set` key: its type by example (`default`), the choices if closed, one line of help."""

    default: Scalar
    help: str
    choices: tuple[Scalar, ...] = ()
    optional: bool = False


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
    """A thing that `llmbx run` can run. `plugin` is filled in by the core from the plugin that registered it."""

    name: str
    title: str
    folder: str
    sizes: dict[str, Size]
    recipes: tuple[Recipe, ...]
    aliases: tuple[str, ...] = ()
    plugin: str = ""
    default_size: str | None = None
    default_dtype: str | None = None
    minimum_gpu_memory_gb: dict[str, int] = {}
    settings: dict[str, Setting] = {}
    references: tuple[Reference, ...] = ()
    examples: tuple[Example, ...] = ()
