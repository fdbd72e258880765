"""From what was asked to one complete `RunSpec`: option, environment, cluster profile, catalog, in that order.

Every value keeps its origin. The rooms below (catalog, hardware, settings) know the facts; this one only decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import catalog, hardware, window
from .config import Config, Profile, choose_profile
from .errors import UsageError, did_you_mean
from .model import (
    CheckpointSpec,
    ImageSource,
    ModelShape,
    Parallelism,
    ProfileSpec,
    Recipe,
    Row,
    RunSpec,
    Scalar,
    Size,
    TraceSpec,
    Workload,
)
from .plugins import Plugins
from .request import Request, from_environ
from .scales import evaluate
from .scheduler_options import scheduler_options
from .secrets import secret_names
from .settings import BATCH, LETTERS, SHAPE, SWITCHES, read_settings

TRACE_STEPS = 5


class Layers:
    """Looks a value up through the layers and remembers where it was found."""

    def __init__(self, request: Request, environ: Mapping[str, str], profile: Profile | None) -> None:
        self.request = request
        self.environment = from_environ(environ)
        self.profile = profile
        self.origins: dict[str, str] = {}

    def find(self, field: str, option: str = "") -> Any:
        """The value of option, environment or profile, or None."""
        value = getattr(self.request, field, None)
        if value is not None:
            return self.note(field, value, option or "--" + field.replace("_", "-"))
        if field in self.environment:
            value, variable = self.environment[field]
            return self.note(field, value, variable)
        value = getattr(self.profile.cluster, field, None) if self.profile else None
        return None if value is None or self.profile is None else self.note(field, value, self.profile.origin)

    def note(self, field: str, value: Any, origin: str) -> Any:
        """Remember that `field` came from `origin`; gives the value back."""
        self.origins[field] = origin
        return value


def resolve(
    request: Request,
    plugins: Plugins,
    config: Config,
    cluster_files: Mapping[str, str],
    environ: Mapping[str, str],
    install: str | None = None,
) -> RunSpec:
    """The complete specification of the run. Raises `UsageError` for whatever is unknown or missing.

    `cluster_files` says which file each cluster profile came from, `install` where artefacts lie. Rules that the result
    may still break are found by `pipeline.findings`.
    """
    gpus = hardware.extend(config.gpus)
    workload = plugins.workload(request.workload, request.plugin)
    profile = choose_profile(config, cluster_files, request.cluster)
    layers = Layers(request, environ, profile)
    target = _target(layers, workload, gpus)
    choice = catalog.choose(workload, **target, recipe=request.recipe)
    recipe, row = choice.recipe, choice.row
    layers.note(
        "recipe", recipe.name, "--recipe" if request.recipe else f"newest recipe with this row ({recipe.source})"
    )
    typed = read_settings(request.settings, workload)
    size = workload.sizes[target["size"]]
    spec = RunSpec(
        plugin=workload.plugin,
        workload=workload.name,
        folder=workload.folder,
        **target,
        **_shape(layers, recipe, row, size, typed, target["gpus"]),
        **_steps(layers, recipe),
        **_place(layers, gpus, target, recipe),
        recipe=recipe.name,
        driver=recipe.driver,
        mini=target["size"] == "mini",
        proxy=size.proxy or any(key in typed for key in SHAPE),
        flops_convention=recipe.flops_convention,
        environment=recipe.environment,
        architecture=size.architecture,
        gated_tokenizer=size.gated_tokenizer,
        settings=_settings(workload, recipe, row, typed, layers),
        env=_env(layers, recipe, target),
        secrets=secret_names(environ, request.env),
        mounts=(*(profile.cluster.mounts if profile else ()), *request.mounts),
        checkpoint=_checkpoint(layers),
        checkpoint_facts=size.checkpoint,
        cluster=profile.name if profile else None,
        scheduler=scheduler_options(request, environ, profile, layers.origins),
        tags=request.tags,
        srun={key: _text(value) for key, value in profile.cluster.srun.items()} if profile else {},
        setup=profile.cluster.setup if profile else (),
        install=install,
        peak=hardware.peak(target["gpu_type"], target["dtype"], gpus),
        corrected=(row.note,) if row.note else (),
        doubts=choice.findings,
    )
    return spec.replace(origins=dict(sorted(layers.origins.items())))


def _target(layers: Layers, workload: Workload, gpus: Mapping[str, hardware.GpuType]) -> dict[str, Any]:
    """Size, dtype, GPU type and scale."""
    gpu_type, count = layers.find("gpu_type"), None
    if gpu_type is None:
        detected = hardware.detect(gpus)
        gpu_type, count = detected or ("cpu", None)
        layers.note("gpu_type", gpu_type, "this machine's GPUs" if detected else "no GPU on this machine")
    gpu_type = hardware.gpu(gpu_type, gpus).name
    size = layers.find("size") or _default_size(layers, workload, gpu_type)
    if size not in workload.sizes:
        raise UsageError(f"{workload.name} has no size '{size}'{did_you_mean(size, workload.sizes)}")
    if (
        gpu_type == "cpu"
        and size != "mini"
        and "gpu_type" in layers.origins
        and not layers.origins["gpu_type"].startswith("--")
    ):
        raise UsageError(
            f"{workload.name} {size} needs a GPU cluster and this machine has no GPU: "
            f"add --gpu-type ({', '.join(catalog.known_gpu_types(workload, size))}), or use --size mini"
        )
    dtype = layers.find("dtype") or _default_dtype(layers, workload, size, gpu_type)
    scale = layers.find("gpus") or _default_scale(layers, workload, size, dtype, gpu_type, count)
    return {"size": size, "dtype": dtype, "gpu_type": gpu_type, "gpus": scale}


def _default_size(layers: Layers, workload: Workload, gpu_type: str) -> str:
    if gpu_type == "cpu" and "mini" in workload.sizes:
        return str(layers.note("size", "mini", "default where there is no GPU"))
    if workload.default_size is None and len(workload.sizes) == 1:
        return str(layers.note("size", next(iter(workload.sizes)), "the only size"))
    if workload.default_size is None:
        raise UsageError(f"{workload.name} has no default size: give --size ({', '.join(workload.sizes)})")
    return str(layers.note("size", workload.default_size, f"default of {workload.name}"))


def _default_dtype(layers: Layers, workload: Workload, size: str, gpu_type: str) -> str:
    chosen = catalog.default_dtype(workload, size, gpu_type, layers.find("gpus"), layers.request.recipe)
    if chosen is not None:
        return str(layers.note("dtype", chosen, f"default of {workload.name} {size} on {gpu_type}"))
    known = catalog.known_dtypes(workload, size, gpu_type, layers.request.recipe)
    if not known:
        types = ", ".join(catalog.known_gpu_types(workload, size))
        raise UsageError(f"{workload.name} {size} has no configuration for {gpu_type} (known: {types})")
    raise UsageError(f"{workload.name} {size} on {gpu_type} has no default dtype: give --dtype {' or '.join(known)}")


def _default_scale(
    layers: Layers, workload: Workload, size: str, dtype: str, gpu_type: str, detected: int | None
) -> int:
    if size == "mini":
        return int(layers.note("gpus", 1, "default of the mini"))
    known = catalog.known_scales(workload, size, dtype, gpu_type, layers.request.recipe)
    if detected in known:
        return int(layers.note("gpus", detected, "this machine's GPUs"))
    if len(known) == 1:
        return int(layers.note("gpus", known[0], "the only scale in the catalog"))
    scales = ", ".join(map(str, known)) or "none in the catalog"
    raise UsageError(f"{workload.name} {size} {dtype} on {gpu_type}: give the number of GPUs with --gpus ({scales})")


def _shape(
    layers: Layers, recipe: Recipe, row: Row, size: Size, typed: Mapping[str, Scalar], gpus: int
) -> dict[str, Any]:
    """Model, parallelism, batch sizes and switches: the row's, with the `--set` keys on top."""
    where = f"recipe {recipe.name} ({recipe.source})"
    row_values: dict[str, Any] = {key: getattr(row, key) for key in LETTERS}
    row_values["fsdp"] = evaluate(row.fsdp, gpus) if isinstance(row.fsdp, str) else row.fsdp
    letters = {key: _set(layers, typed, key, row_values[key], where) for key in LETTERS}
    for key in ("tp", "pp", "cp"):
        if letters[key] < 1:
            raise UsageError(f"--set {key}={letters[key]}: expected a number of at least 1")
    dp = gpus // (letters["tp"] * letters["pp"] * letters["cp"])
    layers.note("dp", dp, "GPUs / (TP x PP x CP)")
    mbs = _set(layers, typed, "mbs", row.mbs, where)
    gbs = _set(layers, typed, "gbs", evaluate(row.gbs, gpus), where)
    switches = {name: _set(layers, typed, key, getattr(row, name), where) for key, name in SWITCHES.items()}
    layers.note("gradient_accumulation", None, "GBS / (MBS x DP)")
    layers.origins.update({name: layers.origins.pop(key) for key, name in {**SWITCHES, **BATCH}.items()})
    return {
        "model": _model(layers, size, row, typed),
        "parallelism": Parallelism(**letters, dp=max(1, dp)),
        "micro_batch_size": mbs,
        "global_batch_size": gbs,
        "gradient_accumulation": max(1, gbs // max(1, mbs * max(1, dp))),
        **switches,
    }


def _set(layers: Layers, typed: Mapping[str, Scalar], key: str, fallback: Any, origin: str) -> Any:
    if key in typed:
        return layers.note(key, typed[key], f"--set {key}")
    return layers.note(key, fallback, origin)


def _model(layers: Layers, size: Size, row: Row, typed: Mapping[str, Scalar]) -> ModelShape:
    changes: dict[str, Any] = {key: typed[key] for key in SHAPE if key in typed}
    if row.layers is not None:
        changes.setdefault("layers", row.layers)
    for key in changes:
        layers.note(key, changes[key], f"--set {key}" if key in typed else "recipe row")
    return size.model.replace(**changes)


def _steps(layers: Layers, recipe: Recipe) -> dict[str, Any]:
    """Steps, window, profile and trace: they depend on each other."""
    profile, trace = _profile(layers, recipe), _trace(layers)
    default, origin = recipe.steps, f"recipe {recipe.name}"
    if profile:
        default, origin = max(recipe.profile_total_steps, profile.stop), "a profiled run's length"
    if trace:
        default, origin = TRACE_STEPS, "a traced run's length"
    steps = layers.find("steps") or layers.note("steps", default, origin)
    if steps < 1:
        raise UsageError(f"--steps {steps}: expected a number of at least 1")
    if profile and profile.stop > steps:
        raise UsageError(f"--steps {steps}: the profiled steps {profile.start}-{profile.stop} lie beyond the end")
    return {"steps": steps, "window": _window(layers, recipe, steps), "profile": profile, "trace": trace,
            "profilers": _profilers(layers, profile, trace)}  # fmt: skip


def _window(layers: Layers, recipe: Recipe, steps: int) -> str:
    asked: str | None = layers.find("window")
    if asked is not None:
        policy = window.check(asked)
        if _end(policy) > steps:
            raise UsageError(f"--window {policy}: the run has only {steps} steps; make it longer with --steps")
        return policy
    if _end(window.check(recipe.window)) > steps:
        why = f"the run of {steps} steps ends before the recipe's window {recipe.window}"
        return str(layers.note("window", "auto", why))
    return str(layers.note("window", recipe.window, f"recipe {recipe.name}"))


def _end(policy: str) -> int:
    """The last step of an `A-B` window; 0 for the policies that fit any run."""
    return int(policy.rpartition("-")[2]) if "-" in policy else 0


def _profile(layers: Layers, recipe: Recipe) -> ProfileSpec | None:
    request = layers.request
    if not (layers.find("profile") or request.profile_steps):
        return None
    start, stop = _span(request.profile_steps or recipe.profile_steps)
    if request.profile_steps is None:
        start = layers.find("profile_start") or start
        stop = layers.find("profile_stop") or stop
    if not 0 <= start < stop:
        raise UsageError(f"profiled steps {start}-{stop}: expected A-B with A < B (half-open, counted from zero)")
    return ProfileSpec(
        start=start,
        stop=stop,
        ranks=request.profile_ranks or "first,mid,last",
        tool=request.profile_tool or "nsys",
        gpu_metrics=bool(layers.find("gpu_metrics")),
    )


def _span(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (dash and first.strip().isdigit() and last.strip().isdigit()):
        raise UsageError(f"profiled steps {text!r}: expected A-B, for example 45-50")
    return int(first), int(last)


def _trace(layers: Layers) -> TraceSpec | None:
    request = layers.request
    if not (layers.find("trace") or "nccltrace" in request.wrappers):
        return None
    chosen = request.trace_subsystems
    extra = {"subsystems": tuple(chosen.upper().split(","))} if chosen else {}
    return TraceSpec(tool="nccltrace", file_per_rank=bool(request.trace_file_per_rank), **extra)


def _profilers(layers: Layers, profile: ProfileSpec | None, trace: TraceSpec | None) -> tuple[str, ...]:
    if profile and trace:
        raise UsageError(
            "profiling and the communication trace exclude each other: the trace's log lines would be part of "
            "what is profiled; run them one after the other"
        )
    chosen = [*layers.request.wrappers]
    for tool in (profile.tool if profile else None, trace.tool if trace else None):
        if tool and tool not in chosen:
            chosen.append(tool)
    return tuple(chosen)


def _place(
    layers: Layers, gpus: Mapping[str, hardware.GpuType], target: Mapping[str, Any], recipe: Recipe
) -> dict[str, Any]:
    """Where it runs: GPUs a node, launcher, runtime, image, time limits."""
    default = hardware.gpu(target["gpu_type"], gpus).gpus_per_node
    per_node = layers.find("gpus_per_node")
    if per_node is None:
        per_node = layers.note("gpus_per_node", default or target["gpus"], f"{target['gpu_type']} nodes")
    if per_node < 1:
        raise UsageError(f"GPUs per node: expected a number of at least 1, not {per_node}")
    per_node = min(per_node, target["gpus"])
    image: str | None = layers.request.image
    source = ImageSource(reference=image, source="--image") if image else recipe.image
    if source:
        layers.note("image", source.reference, "--image" if image else f"recipe {recipe.name}")
    launcher = layers.find("launcher")
    if launcher is None:
        several = target["gpus"] > per_node
        reason = "the run takes several nodes" if several else "default for one node"
        launcher = layers.note("launcher", "slurm" if several else "local", reason)
    return {
        "gpus_per_node": per_node,
        "launcher": launcher,
        "runtime": layers.find("runtime") or layers.note("runtime", "auto", "default"),
        "image": source,
        "walltime_minutes": _walltime(layers, recipe, target),
        "stall_timeout_s": layers.request.stall_timeout_s,
    }


def _walltime(layers: Layers, recipe: Recipe, target: Mapping[str, Any]) -> int | None:
    asked: int | None = layers.request.walltime_minutes
    if asked is not None:
        return int(layers.note("walltime_minutes", asked, "--walltime"))
    if layers.profile:
        limits = layers.profile.cluster.walltime_minutes
        for key in (layers.request.workload, "default"):
            if key in limits:
                return int(layers.note("walltime_minutes", limits[key], layers.profile.origin))
    limit = catalog.walltime_minutes(recipe, target["size"], target["gpu_type"])
    return None if limit is None else int(layers.note("walltime_minutes", limit, f"recipe {recipe.name}"))


def _settings(
    workload: Workload, recipe: Recipe, row: Row, typed: Mapping[str, Scalar], layers: Layers
) -> dict[str, Scalar]:
    """The framework's own keys: declared defaults, the recipe's, the row's, then `--set`."""
    merged: dict[str, Scalar] = {}
    declared = {key: setting.default for key, setting in workload.settings.items()}
    chosen = {key: value for key, value in typed.items() if key in workload.settings}
    layered = ((declared, "default"), (recipe.settings, f"recipe {recipe.name}"), (row.settings, "recipe row"))
    for values, origin in (*layered, (chosen, "--set")):
        for key, value in values.items():
            merged[key] = layers.note(f"settings.{key}", value, origin)
    return merged


def _env(layers: Layers, recipe: Recipe, target: Mapping[str, Any]) -> dict[str, str]:
    profile = layers.profile
    exported = catalog.environment(recipe, target["size"], target["dtype"], target["gpu_type"])
    layered = [(exported, f"recipe {recipe.name}")]
    if profile:
        layered.append((profile.cluster.env, profile.origin))
    layered.append((layers.request.env, "--env"))
    merged: dict[str, str] = {}
    for values, origin in layered:
        for key, value in values.items():
            merged[key] = layers.note(f"env.{key}", value, origin)
    return merged


def _text(value: Scalar) -> str:
    return "" if value is True else str(value)


def _checkpoint(layers: Layers) -> CheckpointSpec:
    return CheckpointSpec(save=bool(layers.find("checkpoint")), load=layers.find("load_checkpoint"))
