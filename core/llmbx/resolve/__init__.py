"""Resolve a request into one complete `RunSpec`: option, environment, cluster profile, catalog, in that order.

Every value records its origin. The facts come from the modules below (catalog, hardware, settings).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..catalog import workloads
from ..catalog.hardware import GpuType
from ..config.install import Install
from ..config.profiles import Config, Profile, choose_profile
from ..config.request import Request
from ..config.settings import SHAPE, of_profile, read_settings
from ..errors import LlmbxError, UsageError
from ..model import (
    RANK_VARIABLES,
    CheckpointSpec,
    Finding,
    Handling,
    Recipe,
    Row,
    RunSpec,
    Scalar,
    Settings,
    Size,
    Workload,
)
from ..model.launch import LOCAL
from ..model.settings import fields, hints
from ..secrets import refuse, secret_names
from ..toml_file import convert
from .layers import Layers, join_plugin_settings, take_framework_settings
from .numbering import first_number, needs_first_number
from .place import place, require_tools
from .profiled import length, with_reachable_window
from .shape import shape
from .startable import check_settings_used, check_startable, with_launcher_settings
from .target import target_of

if TYPE_CHECKING:
    from ..plugins.manager import Plugins

SCALED = "the nearest number of GPUs with a row; the batch of a data-parallel rank is kept"


def resolve(
    request: Request,
    plugins: Plugins,
    config: Config,
    cluster_files: Mapping[str, str],
    environ: Mapping[str, str],
    install: str | None = None,
) -> RunSpec:
    """Return the complete specification of the run. Raises `UsageError` for unknown or missing values.

    `cluster_files` maps each cluster profile to its file; `install` is the folder of artifacts. Rules that the
    specification may still break are checked by `run.context.findings`.
    """
    gpus = GpuType.extend(config.gpus)
    named = plugins.workload_and_size(request.workload, request.size)
    request = request.replace(workload=named[0], size=named[1])
    workload = plugins.workload(request.workload, request.plugin)
    profile = choose_profile(config, cluster_files, request.cluster)
    _refuse_secrets(environ, request, profile)
    layers = Layers(request, environ, profile, workload.sizes)
    require_tools(layers, plugins)
    layers.plugin_settings = join_plugin_settings(layers, plugins)
    own = take_framework_settings(layers, workload)
    target = target_of(layers, workload, gpus, functools.partial(_memory_gb, workload, plugins))
    row_key = {name: target[name] for name in ("size", "dtype", "gpus")}
    row_key["gpu_type"] = target["layout_of"] or target["gpu_type"]
    choice = workloads.choose(workload, **row_key, recipe=request.recipe)
    recipe, row = choice.recipe, choice.row
    origin = "--recipe" if request.recipe else f"newest recipe with this row ({recipe.source})"
    layers.note("recipe", recipe.name, origin)
    typed = read_settings(request.settings, workload)
    size = workload.sizes[target["size"]]
    shaped = shape(layers, recipe, row, size, typed, target["gpus"])
    spec = RunSpec(
        **_of_catalog(workload, recipe, size),
        **_of_cluster(profile, request),
        **target,
        **shaped,
        **length(layers, recipe, target["gpus"], shaped["parallelism"].pp, plugins),
        **place(layers, workload, gpus, target, recipe, plugins),
        scaled_from=layers.note("scaled_from", choice.scaled_from, SCALED) if choice.scaled_from else None,
        **_handling(layers),
        mini=target["size"] == "mini",
        proxy=size.proxy or any(key in typed for key in SHAPE),
        settings=_settings(workload, recipe, row, typed, own, layers, plugins.settings.get(workload.plugin)),
        env=_env(layers, recipe, row, row_key, shaped["parallelism"].pp),
        secrets=_secrets(environ, request, profile),
        checkpoint=_checkpoint(layers),
        plugin_settings=layers.plugin_settings,
        tags=request.tags,
        install=install,
        peak=GpuType.peak_of(target["gpu_type"], target["dtype"], gpus),
        corrected=(row.note,) if row.note else (),
        findings=(*_borrowed(target, gpus), *choice.findings),
    )
    return _complete(spec, layers, plugins, recipe)


def _complete(spec: RunSpec, layers: Layers, plugins: Plugins, recipe: Recipe) -> RunSpec:
    """Set the values that depend on several others. Raises `UsageError` if the run cannot be started."""
    spec = with_launcher_settings(spec, layers, plugins, recipe)
    first = first_number(spec, plugins) if needs_first_number(spec.window, spec.steps) else None
    spec = with_reachable_window(spec, layers, first)
    if spec.profile and not spec.profile.keep_secrets:
        spec = spec.replace(secrets=())
    spec = spec.replace(origins=dict(sorted(layers.origins.items())))
    spec = spec.replace(findings=(*spec.findings, *check_settings_used(spec, plugins)))
    check_startable(spec, plugins, layers.environ)
    return spec


def _of_catalog(workload: Workload, recipe: Recipe, size: Size) -> dict[str, Any]:
    """Return the values that come from the catalog alone."""
    return {
        "plugin": workload.plugin,
        "workload": workload.name,
        "folder": workload.folder,
        "recipe": recipe.name,
        "driver": recipe.driver,
        "flops_convention": recipe.flops_convention,
        "environment": recipe.environment,
        "gpu_environments": recipe.gpu_environments,
        "architecture": size.architecture,
        "gated_tokenizer": size.gated_tokenizer,
        "checkpoint_facts": size.checkpoint,
    }


def _borrowed(target: Mapping[str, Any], gpus: Mapping[str, GpuType]) -> Iterator[Finding]:
    """A note about a row of another GPU type."""
    lender = target["layout_of"]
    if not lender:
        return
    problem = f"layout of {lender}; no published figure for {target['gpu_type']}"
    if not GpuType.named(target["gpu_type"], gpus).has_memory_of(gpus[lender]):
        problem = f"layout of {lender}, which has more memory; no published figure for {target['gpu_type']}"
    fix = "compare it with runs of the same layout only"
    yield Finding(rule="borrowed", problem=problem, fix=fix, warning=True)


def _memory_gb(workload: Workload, plugins: Plugins, size: str, dtype: str, gpu_type: str, gpus: int) -> float | None:
    """The memory that a GPU needs for a row of the catalog, as predicted for the GPU type of the row.

    None for a row that does not scale to this number of GPUs.
    """
    request = Request(
        workload=workload.name,
        plugin=workload.plugin,
        size=size,
        dtype=dtype,
        gpu_type=gpu_type,
        gpus=gpus,
        launcher=LOCAL,
    )
    try:
        spec = resolve(request, plugins, Config(), {}, {})
        expected = plugins.predict_run(spec, Install(root=os.curdir, origin="default"))
    except LlmbxError:
        return None
    refused = not all(finding.warning for finding in spec.findings)
    return expected.memory_gb.value if expected and not refused else None


def _handling(layers: Layers) -> dict[str, Any]:
    """Return the settings of how the run is handled that are set."""
    values = {field.name: layers.find(field.name, field.spelling) for field in fields(Handling)}
    return {name: value for name, value in values.items() if value is not None}


def _of_cluster(profile: Profile | None, request: Request) -> dict[str, Any]:
    """Return the values of the cluster profile, and the requested mounts."""
    if profile is None:
        return {"mounts": request.mounts}
    return {
        "cluster": profile.name,
        "mounts": (*profile.cluster.mounts, *request.mounts),
        "setup": profile.cluster.setup,
    }


def _settings(
    workload: Workload, recipe: Recipe, row: Row, typed: Mapping[str, Scalar], own: Mapping[str, tuple[Scalar, str]],
    layers: Layers, kind: type[Settings] | None,
) -> dict[str, Scalar]:  # fmt: skip
    """Return the framework's own settings: declared defaults, then the recipe, the row, the cluster profile, `--set`.

    Each overrides those before it. `own` are the values, each with its origin, of fields of the plugin's settings class
    `kind`, from the profile, variables and options. Raises `UsageError` if `--set` and an option contradict each other.
    """
    merged: dict[str, Scalar] = {}
    declared = {key: setting.default for key, setting in workload.settings.items()}
    chosen = {key: value for key, value in typed.items() if key in workload.settings}
    layered = [(declared, "default"), (recipe.settings, f"recipe {recipe.name}"), (row.settings, "recipe row")]
    if profile := layers.profile:
        place_ = f"{profile.file}: at clusters.{profile.name}.{workload.plugin}"
        table = profile.cluster.plugin_keys.get(workload.plugin, {})
        layered.append((of_profile(table, workload, place_), profile.origin))
    layered += [({key: value}, origin) for key, (value, origin) in own.items()]
    for key, (value, origin) in own.items():
        if origin.startswith("--") and chosen.get(key, value) != value:
            raise UsageError(f"{origin} {value} contradicts --set {key}={chosen[key]}")
    for values, origin in (*layered, (chosen, "--set")):
        for key, value in values.items():
            merged[key] = layers.note(f"settings.{key}", value, origin)
    if kind is not None:
        types = hints(kind)
        for key in merged.keys() & {*kind.__struct_fields__}:
            convert(merged[key], types[key], f"{layers.origins[f'settings.{key}']} {key}={merged[key]}")
    return merged


def _env(layers: Layers, recipe: Recipe, row: Row, target: Mapping[str, Any], pp: int) -> dict[str, str]:
    profile = layers.profile
    exported = recipe.exported(row, target["size"], target["dtype"], target["gpu_type"], target["gpus"], pp)
    layered = [(exported, f"recipe {recipe.name}")]
    if profile:
        layered.append((profile.cluster.env, profile.origin))
    layered.append((layers.request.env, "--env"))
    merged: dict[str, str] = {}
    for values, origin in layered:
        for key, value in values.items():
            if key in RANK_VARIABLES:
                raise UsageError(f"{origin}: {key} is reserved: llmbx or the launcher sets it for every rank")
            merged[key] = layers.note(f"env.{key}", value, origin)
    return merged


def _secrets(environ: Mapping[str, str], request: Request, profile: Profile | None) -> tuple[str, ...]:
    if profile is None:
        return secret_names(environ, request.env)
    return secret_names(environ, request.env, profile.cluster.env, profile.origin)


def _refuse_secrets(environ: Mapping[str, str], request: Request, profile: Profile | None) -> None:
    """Raise `UsageError` if an option, or a line of the profile that goes into the script, contains a secret."""
    refuse(_option_texts(request), environ)
    if profile is not None:
        refuse({f"{profile.origin}: setup": "\n".join(profile.cluster.setup)}, environ)


def _option_texts(request: Request) -> dict[str, str]:
    """The values that a user types, by option."""
    pairs = {f"--set {name}=…": value for name, value in request.settings.items()}
    plugins = {
        f"the setting {name} of {plugin}": str(value)
        for plugin, values in request.plugin_settings.items()
        for name, value in values.items()
    }
    options = {
        "--image": request.image,
        "--load-checkpoint": request.load_checkpoint,
        "--mount": " ".join(request.mounts),
        "--tag": " ".join(request.tags),
    }
    return {**pairs, **plugins, **{name: text for name, text in options.items() if text}}


def _checkpoint(layers: Layers) -> CheckpointSpec:
    return CheckpointSpec(save=bool(layers.find("checkpoint")), load=layers.find("load_checkpoint"))
