"""From upstream's functions to configurations: one for each size, dtype, GPU type and number of GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from llmbx.api import GpuType, Value

from .names import Names, Scale
from .tree import Function

DTYPES = {"mxfp8": "fp8mx", "fp8": "fp8cs", "nvfp4": "nvfp4", "bf16": "bf16"}
"""Dtypes in the order of the catalog, with the names in upstream's functions."""

MOST_GPUS = 2048
"""The largest number of GPUs that rows are written for."""

Key = tuple[str, str, str, int]
"""Size, dtype, GPU type and number of GPUs."""


class Configuration(Value, frozen=True):
    """What a run of one size, dtype, GPU type and number of GPUs gets. `values` are the fields of a row but `gbs`."""

    values: dict[str, Any]
    gbs: int
    env: dict[str, str]


class Imported(Value, frozen=True):
    """The configurations of a workload, the functions that were left out, by reason, and the scales beyond them."""

    workload: str
    configurations: dict[Key, Configuration]
    left_out: dict[str, tuple[str, ...]]
    scales: tuple[Scale, ...] = ()


def workloads(functions: Iterable[Function], names: Names) -> list[Imported]:
    """Return the workloads that the functions train, by name."""
    by_workload: dict[str, list[Function]] = {}
    for function in functions:
        if function.model in names.models:
            by_workload.setdefault(names.models[function.model][0], []).append(function)
    return [_imported(name, members, names) for name, members in sorted(by_workload.items())]


def unknown_models(functions: Iterable[Function], names: Names) -> dict[str, int]:
    """Return the models without a name here and their numbers of functions."""
    counts = Counter(function.model for function in functions)
    return {
        model: count
        for model, count in sorted(counts.items())
        if model not in names.models and model not in names.left_out
    }


def _imported(workload: str, functions: list[Function], names: Names) -> Imported:
    configurations: dict[Key, Configuration] = {}
    aliases: dict[Key, bool] = {}
    left_out: dict[str, list[str]] = {}
    lengths = {model: _usual_length(functions, model) for model in {function.model for function in functions}}
    for function in functions:
        reason = _why_not(function, lengths[function.model])
        if reason:
            left_out.setdefault(reason, []).append(function.function.removesuffix("_config"))
            continue
        size = names.models[function.model][1]
        dtype = next(dtype for dtype, variant in DTYPES.items() if variant == function.variant)
        key = (size, dtype, function.gpu_type, function.gpus)
        configurations[key], aliases[key] = _configuration(function, names), function.alias
    return Imported(
        workload=workload,
        configurations={key: configurations[key] for key in sorted(configurations, key=_order(names))},
        left_out={reason: tuple(sorted(members)) for reason, members in sorted(left_out.items())},
        scales=tuple(_beyond(workload, {key: aliases[key] for key in sorted(aliases, key=_order(names))})),
    )


def _beyond(workload: str, aliases: Mapping[Key, bool]) -> Iterator[Scale]:
    """Yield the scales beyond a second name: upstream's program scales the function with the most GPUs to them."""
    counts: dict[tuple[str, str, str], dict[bool, int]] = {}
    for (*row, gpus), alias in aliases.items():
        of_row = counts.setdefault((row[0], row[1], row[2]), {True: 0, False: 0})
        of_row[alias] = max(of_row[alias], gpus)
    for (size, dtype, gpu_type), of_row in counts.items():
        if of_row[True] > of_row[False] > 0:
            doubled = tuple(of_row[True] << step for step in range(1, 8) if of_row[True] << step <= MOST_GPUS)
            yield Scale(
                workload=workload,
                size=size,
                dtypes=(dtype,),
                gpu_type=gpu_type,
                scaled_from=of_row[False],
                gpus=doubled,
                values={},
            )


def _usual_length(functions: Iterable[Function], model: str) -> int | None:
    lengths = Counter(function.sequence_length for function in functions if function.model == model)
    return lengths.most_common(1)[0][0]


def _why_not(function: Function, length: int | None) -> str:
    """Return why a function gives no row of the catalog, or an empty text."""
    if function.error:
        return f"it fails: {function.error}"
    if function.variant not in DTYPES.values():
        return "variants of a dtype"
    if function.gpu_type not in GpuType.builtin():
        return f"no GPU type {function.gpu_type}"
    if function.files:
        return f"the package lacks {', '.join(function.files)}"
    if function.sequence_length != length:
        return f"samples of {function.sequence_length} tokens"
    if function.gbs is None or function.mbs is None:
        return "no batch size"
    parallel = (function.tp or 1) * (function.pp or 1) * (function.cp or 1)
    if function.gpus % parallel:
        return f"{function.gpus} GPUs are not divisible by TP x PP x CP"
    experts, ranks = (function.ep or 1) * (function.etp or 1), function.gpus // (function.pp or 1)
    if ranks % experts:
        return f"EP {function.ep} does not divide the {ranks} GPUs of a pipeline stage"
    samples = function.mbs * (function.gpus // parallel)
    if function.gbs % samples:
        return f"GBS {function.gbs} is not divisible by the {samples} samples of all data-parallel ranks"
    return ""


def _configuration(function: Function, names: Names) -> Configuration:
    pp, experts = function.pp or 1, bool(function.etp) or (function.ep or 1) > 1
    values = {
        "fsdp": bool(function.fsdp),
        "tp": function.tp or 1,
        "pp": pp,
        "cp": function.cp or 1,
        "ep": (function.ep or 1) if experts else None,
        "etp": (function.etp or 1) if experts else None,
        "vp": function.vp if pp > 1 else None,
        "mbs": function.mbs,
        "cuda_graphs": function.graphs not in (None, "none"),
        "recompute_layers": (function.recompute_layers or 0) if function.recompute == "full" else 0,
        "offload_layers": (function.offload_layers or 0) if function.offload else 0,
    }
    own = {name: str(value) for name, value in function.env.items()}
    env = names.env | names.gpu_env.get(function.gpu_type, {}) | own
    return Configuration(values=values, gbs=function.gbs or 0, env=dict(sorted(env.items())))


def _order(names: Names) -> Any:
    """Return the sort key of configurations: sizes as in the names, newest GPU type first, dtypes, GPUs."""
    sizes = [size for _, size in names.models.values()]
    gpu_types, dtypes = list(GpuType.builtin()), list(DTYPES)

    def order(key: Key) -> tuple[int, int, int, int]:
        size, dtype, gpu_type, gpus = key
        return sizes.index(size), -gpu_types.index(gpu_type), dtypes.index(dtype), gpus

    return order


def differences(old: Mapping[Key, Configuration], new: Mapping[Key, Configuration]) -> Iterator[str]:
    """Yield a line for each configuration that is new or gone, and for each value that changed."""
    for key in (*old, *(key for key in new if key not in old)):
        name = "/".join(map(str, key))
        if key not in new:
            yield f"{name}: gone"
        elif key not in old:
            yield f"{name}: new"
        else:
            before, after = _flat(old[key]), _flat(new[key])
            for field in (*before, *(field for field in after if field not in before)):
                if before.get(field) != after.get(field):
                    yield f"{name}: {field} {_text(before.get(field))} -> {_text(after.get(field))}"


def _flat(configuration: Configuration) -> dict[str, Any]:
    return {**configuration.values, "gbs": configuration.gbs, **configuration.env}


def _text(value: Any) -> str:
    return "unset" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
