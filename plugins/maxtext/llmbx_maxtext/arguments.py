"""Build MaxText's `key=value` arguments and XLA's flags for one phase of a run, from the templates of its release."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from typing import Any

from llmbx.api import ProfileSpec, RunSpec, Value

from .mesh import mesh_of
from .releases import Release
from .settings import MaxtextSettings, settings

GIB = 1 << 30

OUTPUT = "maxtext"
"""MaxText's own output folder, inside the run folder."""

SEGMENTS = 32
"""Maximum number of packed sequences per sample, as in MaxText's GPU configurations. cuDNN's fused attention needs a
limit."""


class Stage(Value, frozen=True):
    """The parameters of a training phase that differ between phases.

    `role` is the name of the phase. `profile_all` profiles all ranks instead of the first. `compilation_cache` is the
    folder for compiled programs; if it is empty, they are not stored.
    """

    role: str
    steps: int
    profile: ProfileSpec | None = None
    profile_all: bool = False
    compilation_cache: str = ""


def arguments(spec: RunSpec, release: Release, stage: Stage) -> tuple[str, ...]:
    """Return MaxText's arguments in the order of the release's templates.

    The user's own arguments (the setting `extra`) come last, so that they override the others.
    """
    parameters = {**values(spec), "compilation_cache": stage.compilation_cache, "profile_all": _word(stage.profile_all)}
    templates = [*release.arguments, *(() if parameters["model_name"] else release.shape)]
    if stage.profile:
        span = stage.profile.stop - stage.profile.start
        parameters |= {"profile_tool": stage.profile.tool, "profile_start": stage.profile.start, "profile_steps": span}
        templates += release.profile
    name = spec.experiment if stage.role == "train" else f"{spec.experiment}-{stage.role}"
    on_device = settings(spec).remat_keep.replace(",", " ").split()
    own = () if parameters["model_name"] else _architecture(spec)
    return (
        f"run_name={name}",
        f"steps={stage.steps}",
        *fill(templates, parameters),
        *own,
        *(f"{tensor}=device" for tensor in on_device),
        *settings(spec).extra.split(),
    )


def flags(spec: RunSpec, release: Release) -> tuple[str, ...]:
    """Return the XLA flags of every phase; on a machine without a GPU only the number of forced host devices."""
    if spec.gpu_type == "cpu":
        return (f"--xla_force_host_platform_device_count={spec.gpus // (spec.nodes * processes(spec))}",)
    omitted = settings(spec).omit_flags.replace(",", " ").split()
    return tuple(flag for flag in fill(release.flags, values(spec)) if _flag_name(flag) not in omitted)


def _flag_name(flag: str) -> str:
    return flag.removeprefix("--").partition("=")[0]


def processes(spec: RunSpec) -> int:
    """Return the number of processes on each node."""
    return settings(spec).processes or (1 if spec.gpu_type == "cpu" else spec.gpus // spec.nodes)


def hardware(spec: RunSpec) -> str:
    """Return MaxText's argument `hardware`: whether one process has all GPUs of its node."""
    if spec.gpu_type == "cpu":
        return "cpu"
    return "gpu" if processes(spec) == 1 else "gpu_multiprocess"


def _architecture(spec: RunSpec) -> tuple[str, ...]:
    """Return the arguments of what is not a size in the model."""
    return tuple(f"{key}={_text(value)}" for key, value in spec.architecture.items() if key not in NAMES)


NAMES = ("model_name", "decoder_block", "activations")
"""Entries of the architecture that the templates use."""


def values(spec: RunSpec) -> dict[str, Any]:
    """Return the values for the placeholders of the templates. None leaves a template out."""
    model, mesh, chosen = spec.model, mesh_of(spec), settings(spec)
    named = None if spec.proxy else spec.architecture.get("model_name")
    return {
        **{name: getattr(mesh, name) for name in mesh.__struct_fields__},
        **{name: getattr(model, name) for name in model.__struct_fields__},
        **{f"{name}_bytes": _fraction(chosen, name) for name in COLLECTIVES},
        "model_name": named,
        "decoder_block": spec.architecture.get("decoder_block"),
        "activations": spec.architecture.get("activations", "silu,linear"),
        "head_dim": model.head_width or model.hidden_size // model.heads,
        "shared_experts": 1 if model.shared_ffn_hidden_size else None,
        "capacity_factor": spec.settings.get("capacity_factor") if model.experts else None,
        "megablox": "false" if model.experts else None,
        "per_device_batch_size": _plain(spec.global_batch_size / (spec.gpus * spec.gradient_accumulation)),
        "lr": chosen.lr,
        "command_buffers": chosen.command_buffers,
        "graph_level": None if chosen.command_buffers else 0,
        "captured": chosen.command_buffers or None,
        "gradient_accumulation": spec.gradient_accumulation if spec.gradient_accumulation > 1 else None,
        "remat_policy": chosen.remat_policy,
        "scan_layers": _word(chosen.scan_layers),
        "attention": chosen.attention,
        "segments": SEGMENTS if chosen.attention == "cudnn_flash_te" else None,
        "dtype": {"fp32": "float32"}.get(spec.dtype),
        "quantization": "fp8" if spec.dtype == "fp8" else "",
        "hardware": hardware(spec),
        "skip_distributed": "true" if spec.gpu_type == "cpu" else None,
        "output": OUTPUT,
    }


COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")


def fill(templates: Iterable[str], known: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the formatted templates, without those that contain a value that is None."""
    return tuple(text.format_map(known) for text in templates if all(known[name] is not None for name in _names(text)))


def _names(template: str) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(template) if name]


def _fraction(chosen: MaxtextSettings, collective: str) -> int | None:
    divisor = getattr(chosen, f"{collective}_divisor")
    return chosen.combine_gib * GIB // divisor if divisor else None


def _plain(number: float) -> float | int:
    return int(number) if number == int(number) else number


def _word(value: object) -> str:
    return "true" if value else "false"


def _text(value: object) -> str:
    return _word(value) if isinstance(value, bool) else str(value)
