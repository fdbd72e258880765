"""From what was asked to one complete `RunSpec`: option, environment, cluster profile, catalog, in that order.

Every value keeps its origin. The rooms below (catalog, hardware, settings) know the facts; this one only decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import catalog, hardware
from ..config import Config, choose_profile
from ..model import CheckpointSpec, Recipe, Row, RunSpec, Scalar, Workload
from ..plugins import Plugins
from ..request import Request
from ..scheduler_options import scheduler_options
from ..secrets import secret_names
from ..settings import SHAPE, read_settings
from .layers import Layers
from .length import length
from .place import place
from .shape import shape
from .target import target_of


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
    target = target_of(layers, workload, gpus)
    choice = catalog.choose(workload, **target, recipe=request.recipe)
    recipe, row = choice.recipe, choice.row
    layers.note(
        "recipe", recipe.name, "--recipe" if request.recipe else f"newest recipe with this row ({recipe.source})"
    )
    typed = read_settings(request.settings, workload)
    size = workload.sizes[target["size"]]
    shaped = shape(layers, recipe, row, size, typed, target["gpus"])
    spec = RunSpec(
        plugin=workload.plugin,
        workload=workload.name,
        folder=workload.folder,
        **target,
        **shaped,
        **length(layers, recipe, target["gpus"], shaped["parallelism"].pp),
        **place(layers, gpus, target, recipe),
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
    if spec.profile and not spec.profile.keep_secrets:
        spec = spec.replace(secrets=())
    return spec.replace(origins=dict(sorted(layers.origins.items())))


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


def _checkpoint(layers: Layers) -> CheckpointSpec:
    return CheckpointSpec(save=bool(layers.find("checkpoint")), load=layers.find("load_checkpoint"))


def _text(value: Scalar) -> str:
    return "" if value is True else str(value)
