"""The plugins and the catalog of these tests: a framework, a scheduler, a container tool and three profilers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

import pluggy

import llmbx.builtin
from llmbx import hookimpl, hookspecs
from llmbx.config.profiles import Cluster, Config
from llmbx.config.request import Request
from llmbx.errors import UsageError
from llmbx.launchers.local import LocalLauncher
from llmbx.logs.parser import LogFormat, LogParser
from llmbx.model import (
    Checkpointing,
    Environment,
    Exports,
    Finding,
    ImageRequest,
    ImageSource,
    Launch,
    ModelShape,
    Option,
    Profiler,
    Recipe,
    Row,
    RunSpec,
    Setting,
    Settings,
    Size,
    Workload,
)
from llmbx.plugins.manager import Plugins
from llmbx.resolve import resolve
from llmbx.runtimes.base import Offer
from llmbx.runtimes.host import HostRuntime

CLUSTER = "cluster 'alps' in llmbx.toml"
"""The origin of a value of the cluster profile."""

SHAPE = ModelShape(
    layers=8,
    hidden_size=64,
    ffn_hidden_size=256,
    heads=8,
    query_groups=4,
    vocab_size=128,
    sequence_length=32,
)

SIZES = {
    "mini": Size(model=SHAPE.replace(layers=2)),
    "8b": Size(model=SHAPE, needs_gpu="its kernels are for GPUs", gated_tokenizer="team/tokenizer"),
    "70b": Size(
        model=SHAPE.replace(layers=16, attention_window=8, windowed_layers=12),
        checkpoint=Checkpointing(size_gb=140, save_gpus=(64, 256), load_min_gpus=64),
    ),
    "70b-part": Size(model=SHAPE.replace(hidden_size=128), proxy=True),
    "moe": Size(model=SHAPE.replace(experts=16, experts_per_token=2)),
}

ROWS = (
    Row(size="mini", dtypes=("bf16", "fp32"), gpu_types=("any",), gpus=("any",), gbs="GPUs*4"),
    Row(size="8b", dtypes=("bf16", "fp8"), gpu_types=("h100",), gpus=("8-64",), gbs="GPUs*2", tp=2),
    Row(size="8b", dtypes=("mxfp8",), gpu_types=("gb200",), gpus=("4",), gbs=64),
    Row(
        size="70b",
        dtypes=("bf16",),
        gpu_types=("h100", "gb200"),
        gpus=("64-256",),
        gbs=256,
        mbs=2,
        tp=4,
        pp=4,
        vp=2,
        fsdp="GPUs/8",
        cuda_graphs=True,
        recompute_layers=3,
        settings={"kernel": "fused"},
        env={"NCCL_NVLS_ENABLE": "0"},
        note="the table prints DP 3",
    ),
    Row(size="70b-part", dtypes=("bf16",), gpu_types=("h100",), gpus=("1-8",), gbs=8, layers=4),
    Row(size="moe", dtypes=("bf16",), gpu_types=("b200",), gpus=("16",), gbs=64, ep=8, etp=2),
)

NEW = Recipe(
    name="new",
    title="The new recipe",
    released="1.10",
    source="the new guide",
    driver="python",
    rows=ROWS,
    image=ImageSource(reference="registry.example#team/new:2", digest="sha256:" + "2" * 64),
    environment="cpu-lock",
    gpu_environments=("gpu-lock",),
    window="11-18",
    steps=20,
    profile_steps="10-12",
    profile_total_steps=15,
    profile_ranks="0-3",
    walltime_minutes={"8b": 30, "default": 90},
    settings={"momentum": 0.5, "kernel": "plain"},
    env={"OMP_NUM_THREADS": "1", "NCCL_NVLS_ENABLE": "1"},
    exports=(Exports(env={"PIPELINE": "1"}, pipelined=True), Exports(env={"SMALL": "1"}, sizes=("8b",))),
    launchers={"batch": {"queue": "benchmarks"}},
)

OLD = NEW.replace(
    name="old",
    title="The old recipe",
    released="1.9",
    source="the old guide",
    rows=(
        Row(size="8b", dtypes=("bf16",), gpu_types=("h100",), gpus=("8",), gbs=32),
        Row(size="70b", dtypes=("bf16", "fp8"), gpu_types=("h100",), gpus=("64", "512"), gbs=512, tp=8),
    ),
    image=None,
)

CURVE = Workload(
    name="curve",
    title="A curve through points",
    folder="fit_curve",
    aliases=("pretrain_curve",),
    sizes=SIZES,
    recipes=(OLD, NEW),
    default_size="70b",
    default_dtype="bf16",
    default_gpu_type="h100",
    settings={
        "rate": Setting(default=0.1, help="Learning rate."),
        "momentum": Setting(default=0.9, help="Momentum."),
        "kernel": Setting(default="plain", help="Kernel.", choices=("plain", "fused")),
        "shuffle": Setting(default=True, help="Whether points are shuffled."),
        "limit": Setting(default=None, type="int", optional=True, help="Largest number of points."),
    },
)

DOT = Workload(
    name="dot",
    title="One point",
    folder="fit_dot",
    sizes={"2b": Size(model=SHAPE)},
    recipes=(
        NEW.replace(rows=(Row(size="2b", dtypes=("fp8",), gpu_types=("h100",), gpus=("8", "32"), gbs=32),)),
        OLD.replace(rows=(Row(size="2b", dtypes=("bf16", "fp8"), gpu_types=("gb200",), gpus=("8",), gbs=32),)),
    ),
)
"""A workload without a mini and without defaults."""


class FrameworkSettings(Settings, frozen=True):
    plugin: ClassVar[str] = "curves"

    seed: Annotated[int, Option(help="Seed of the points.", variables=("CURVES_SEED",))] = 0


class Parser(LogParser):
    def __init__(self, first_step: int) -> None:
        self.first_step = first_step

    def feed(self, line: str) -> list[Any]:
        return []


class Framework:
    def __init__(self, first_step: int) -> None:
        self.first_step = first_step

    @hookimpl
    def register_workloads(self) -> list[Workload]:
        return [CURVE, DOT]

    @hookimpl
    def register_settings(self) -> type[Settings]:
        return FrameworkSettings

    @hookimpl
    def prepare_image(self, spec: RunSpec) -> ImageRequest:
        lock = Environment(name="lock", pythons=("3.11",), steps=(), files={"a.whl": "sha256:" + "0" * 64})
        return ImageRequest(environment=lock, reference=spec.image.reference if spec.image else None)

    @hookimpl
    def parse_log(self, spec: RunSpec | None) -> list[LogFormat]:
        return [LogFormat("curves", "Curves", lambda text: 0, partial(Parser, self.first_step))]


class BatchSettings(Settings, frozen=True):
    plugin: ClassVar[str] = "batch"

    queue: Annotated[str | None, Option(help="Queue of the job.", variables=("BATCH_QUEUE",))] = None
    minutes: Annotated[int | None, Option(help="Time limit of the job.", variables=("BATCH_MINUTES",))] = None
    nodes: Annotated[int | None, Option(help="Nodes of the job; set by the launcher.", name="")] = None


class BatchLauncher(LocalLauncher):
    """A scheduler: it takes runs of several nodes."""

    name = "batch"
    remote = True
    attended = False

    def claims(self, nodes: int, on_gpus: bool, environ: Mapping[str, str]) -> str | None:
        return "the run needs several nodes" if nodes > 1 else None

    def time_limit(self, settings: Mapping[str, Any], origins: Mapping[str, str]) -> tuple[int | None, str] | None:
        minutes = settings.get("minutes")
        if minutes is None:
            return None
        return (None if minutes == 0 else minutes, origins["batch.minutes"])

    def complete_spec(self, spec: RunSpec) -> RunSpec:
        settings = {**spec.plugin_settings.get("batch", {}), "nodes": spec.nodes}
        changed: RunSpec = spec.replace(
            plugin_settings={**spec.plugin_settings, "batch": settings},
            origins={**spec.origins, "batch.nodes": "the number of GPUs"},
        )
        return changed

    def check_spec(self, spec: RunSpec, environ: Mapping[str, str]) -> None:
        if "INSIDE_JOB" in environ:
            raise UsageError("a job cannot be submitted from inside a job")


class BoxRuntime(HostRuntime):
    """A container tool."""

    name = "box"
    uses_image = True

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        return Offer(rank=20, reason="the recipe has an image") if request.reference else None


class Batch:
    @hookimpl
    def register_settings(self) -> type[Settings]:
        return BatchSettings

    @hookimpl
    def register_launchers(self) -> list[Any]:
        return [BatchLauncher()]

    @hookimpl
    def register_runtimes(self) -> list[Any]:
        return [BoxRuntime()]


class Recorder:
    """A plugin that wraps launches and has these properties."""

    def __init__(self, **properties: Any) -> None:
        self.properties = Profiler(**properties)

    @hookimpl
    def register_profiler(self) -> Profiler:
        return self.properties

    @hookimpl
    def wrap_command(self, spec: RunSpec, launch: Launch) -> Launch | None:
        return None


class ProbeSettings(Settings, frozen=True):
    plugin: ClassVar[str] = "probe"

    enabled: Annotated[bool, Option(help="Probe the run.", name="--probe", variables=("ENABLE_PROBE",))] = False
    rate: Annotated[int, Option(help="Samples a second.", variables=("PROBE_RATE",))] = 1

    @classmethod
    def unused(cls, spec: RunSpec) -> list[Finding]:
        rate = spec.plugin_settings["probe"].get("rate")
        if rate is None:
            return []
        problem = f"{spec.origins['probe.rate']} has no effect"
        return [Finding(rule="rate", problem=problem, fix="add --probe", warning=True)]


class Probe(Recorder):
    @hookimpl
    def register_settings(self) -> type[Settings]:
        return ProbeSettings


class ClockSettings(Settings, frozen=True):
    plugin: ClassVar[str] = "clock"

    unit: Annotated[str, Option(help="Unit of the times.", variables=("CLOCK_UNIT",))] = "ms"


class Clock(Recorder):
    @hookimpl
    def register_settings(self) -> type[Settings]:
        return ClockSettings


def installed(first_step: int = 1) -> Plugins:
    """The plugins, with a framework whose logs number the first step `first_step`.

    `clock` records steps, `probe` makes runs shorter and slower, `wire` traces.
    """
    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)
    plugins: dict[str, Any] = {
        "local": llmbx.builtin,
        "curves": Framework(first_step),
        "batch": Batch(),
        "clock": Clock(takes_steps=True, disturbs="nothing"),
        "probe": Probe(steps=12, walltime_minutes=45, disturbs="time"),
        "wire": Recorder(traces=True),
    }
    for name, plugin in plugins.items():
        registry.register(plugin, name=name)
    return Plugins(registry, [])


def resolved(
    environ: Mapping[str, str] | None = None,
    cluster: Mapping[str, Any] | None = None,
    plugins: Plugins | None = None,
    **options: Any,
) -> RunSpec:
    """Resolve a request for `curve`; `cluster` has the members of the profile `alps`, which is then the default."""
    config = Config()
    if cluster is not None:
        config = Config(default_cluster="alps", clusters={"alps": Cluster(**cluster)})
    request = Request(**{"workload": "curve", **options})
    return resolve(request, plugins or installed(), config, {"alps": "llmbx.toml"}, environ or {}, "/install")
