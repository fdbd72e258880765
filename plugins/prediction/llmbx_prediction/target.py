"""From the words on the command line to a configuration: a workload of the catalog, or a model of the table."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llmbx.api import RunSpec, UsageError, did_you_mean

from .atlas.near import distance
from .case import Case
from .cost.model import Model, known, of_shape
from .cost.rates import LOW, WIDE, rates
from .cost.rates import known as known_rates

if TYPE_CHECKING:
    from llmbx.api import Workload
    from llmbx.api.verbs import Workspace

    from .atlas.row import Row

INTEGERS = {"tp", "pp", "cp", "ep", "etp", "vp", "mbs", "gbs", "seq"}
"""Keys of --set that change the configuration."""
SHAPE = {"layers", "hidden", "ffn", "heads", "groups", "head_width", "vocab", "experts", "top_k", "moe_ffn",
         "shared_ffn", "dense_layers"}  # fmt: skip
"""Keys of --set that change the model."""
ALIASES = {"hidden_size": "hidden", "ffn_hidden_size": "ffn", "query_groups": "groups", "vocab_size": "vocab"}
RECOMPUTE = ("none", "selective", "full")
DTYPES = (*WIDE, *LOW)
OTHER_NAMES = {"fp8_mx": "mxfp8", "fp8-mx": "mxfp8", "fp8_cs": "fp8", "fp8-cs": "fp8", "fp4": "nvfp4"}
"""Dtypes under the names of other pages."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """What the command line asks for; None is not set."""

    names: tuple[str, ...]
    size: str | None = None
    dtype: str | None = None
    gpu_type: str | None = None
    gpus: int | None = None
    release: str | None = None
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Target:
    """A configuration, and where the values come from that were not asked for. `spec` is the catalog's, if any."""

    case: Case
    base: str
    spec: RunSpec | None = None


def model_of(asked: Asked, workspace: Workspace) -> tuple[Model, Workload | None, str | None]:
    """The model of the words, with the catalog's workload and size if it is one of the catalog.

    Raises `UsageError` with a suggestion for an unknown name.
    """
    name = asked.names[-1]
    found = _in_catalog(asked, workspace)
    if found is not None:
        workload, size = found
        return of_shape(workload.sizes[size].model, f"{workload.name}-{size}"), workload, size
    for model in known().values():
        if name.lower() in (model.name, *(alias.lower() for alias in model.aliases)):
            if asked.size is not None:
                raise UsageError(f"--size {asked.size}: {model.name} is one model and has no sizes")
            return model, None, None
    names = [*known(), *(workload.name for workload in workspace.plugins.workloads)]
    raise UsageError(f"no workload or model named '{name}'{did_you_mean(name.lower(), names)}: "
                     "`llmbx atlas` and `llmbx list` show all")  # fmt: skip


def _in_catalog(asked: Asked, workspace: Workspace) -> tuple[Workload, str] | None:
    name, plugin = asked.names[-1], asked.names[0] if len(asked.names) == 2 else None
    if not any(name in (workload.name, *workload.aliases) for workload in workspace.plugins.workloads):
        if plugin is not None:
            workspace.plugins.workload(name, plugin)
        return None
    workload = workspace.plugins.workload(name, plugin)
    size = asked.size or workload.default_size or next(iter(workload.sizes))
    if size not in workload.sizes:
        raise UsageError(f"{workload.name} has no size '{size}'{did_you_mean(size, workload.sizes)}: "
                         f"it has {', '.join(workload.sizes)}")  # fmt: skip
    return workload, size


def target(asked: Asked, rows: Sequence[Row], workspace: Workspace) -> Target:
    """The configuration of the words: the catalog's, else the nearest published one, with the changes of --set.

    Raises `UsageError` if GPU type or number of GPUs is missing, and for unknown or impossible settings.
    """
    model, workload, size = model_of(asked, workspace)
    if asked.gpu_type is None or asked.gpus is None:
        missing = "--gpu-type" if asked.gpu_type is None else "--gpus"
        raise UsageError(f"{missing} is required: a prediction is for GPUs of one type and number")
    rates(asked.gpu_type).peak(_dtype(asked.dtype or "bf16"))
    shape, settings = _split(asked.settings)
    model = _reshaped(model, shape)
    spec = _resolved(asked, workload, size, workspace) if workload is not None else None
    if spec is not None and workload is not None:
        base = f"catalog, recipe {spec.recipe}, row of {spec.gpu_type}"
        spec = spec.replace(gpu_type=asked.gpu_type)
        return Target(_changed(of_spec(spec, model, workload, asked.dtype, asked.release), settings), base, spec)
    case, base = _of_nearest(model, asked, rows)
    if "gbs" in settings:
        return Target(_changed(case, settings), base)
    whole = {**settings, "gbs": str(_divisible(case, settings))}
    return Target(_changed(case, whole), base)


def _divisible(case: Case, settings: Mapping[str, str]) -> int:
    """The global batch nearest to that of the case which the micro-batches of the settings divide."""
    mbs, tp, pp, cp = (_integer(name, settings[name]) if name in settings else getattr(case, name)
                       for name in ("mbs", "tp", "pp", "cp"))  # fmt: skip
    unit = mbs * max(1, case.gpus // (tp * pp * cp))
    return max(1, round(case.gbs / unit)) * unit


def _split(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of the model and those of the configuration. Raises `UsageError` for an unknown one."""
    named = {ALIASES.get(key, key): value for key, value in settings.items()}
    allowed = INTEGERS | SHAPE | {"fsdp", "recompute", "fp8_recipe"}
    for key in named:
        if key not in allowed:
            raise UsageError(f"--set {key}: unknown setting{did_you_mean(key, sorted(allowed))}")
    return {k: v for k, v in named.items() if k in SHAPE}, {k: v for k, v in named.items() if k not in SHAPE}


def _integer(key: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text) or (int(text) < 1 and key not in SHAPE):
        raise UsageError(f"--set {key}={text}: expected an integer >= {0 if key in SHAPE else 1}")
    return int(text)


def _reshaped(model: Model, shape: Mapping[str, str]) -> Model:
    values = {key: _integer(key, text) for key, text in shape.items()}
    if not values:
        return model
    if not model.has_shape:
        raise UsageError(f"--set {next(iter(values))}: the shape of {model.name} is not known")
    if "heads" in values and "groups" not in values and model.groups == model.heads:
        values["groups"] = values["heads"]
    changed = model.replace(**values)
    if min(changed.layers, changed.hidden, changed.heads) < 1:
        raise UsageError("--set: layers, hidden and heads must be >= 1")
    if changed.layers < max(changed.dense_layers, changed.ssm_layers + (changed.attention_layers or 0)):
        raise UsageError(f"--set layers={changed.layers}: {model.name} has more layers of one kind")
    return changed if set(values) <= {"layers"} else changed.replace(name=f"{model.name}, changed")


def _changed(case: Case, settings: Mapping[str, str]) -> Case:
    values: dict[str, Any] = _consequences(settings)
    for key, text in settings.items():
        if key == "fp8_recipe":
            values["dtype"] = "mxfp8" if text == "mx" else "fp8"
        elif key == "fsdp":
            if text.lower() not in ("true", "false", "0", "1", "on", "off"):
                raise UsageError(f"--set fsdp={text}: expected true or false")
            values[key] = text.lower() in ("true", "1", "on")
        elif key == "recompute":
            if text not in RECOMPUTE:
                raise UsageError(f"--set recompute={text}: expected {', '.join(RECOMPUTE)}")
            values[key] = text
        else:
            values[key] = _integer(key, text)
    return check(case.replace(**values))


def _consequences(settings: Mapping[str, str]) -> dict[str, Any]:
    """What follows from the pipeline: none has no virtual stages, one has neither FSDP nor offloaded layers."""
    if "pp" not in settings:
        return {}
    return {"vp": 1} if settings["pp"] == "1" else {"fsdp": False, "offload_layers": 0}


def check(case: Case) -> Case:
    """The case, if it can be run. Raises `UsageError` with the rule that it breaks."""
    ranks = case.tp * case.pp * case.cp
    if case.gpus % ranks:
        raise UsageError(f"TP {case.tp} x PP {case.pp} x CP {case.cp} = {ranks} does not divide {case.gpus} GPUs")
    unit = case.mbs * (case.gpus // ranks)
    if case.gbs % unit:
        raise UsageError(f"the global batch of {case.gbs} is not a multiple of MBS {case.mbs} x DP {case.gpus // ranks}"
                         f" = {unit}: use --set gbs={max(1, round(case.gbs / unit)) * unit}")  # fmt: skip
    model = case.model
    if case.ep > 1 and not model.experts:
        raise UsageError(f"EP {case.ep} needs experts, and {model.name} has none")
    if model.experts and model.has_shape and model.experts % case.ep:
        raise UsageError(f"EP {case.ep} does not divide the {model.experts} experts")
    if (case.gpus // case.pp) % (case.ep * case.etp):
        raise UsageError(f"EP {case.ep} x ETP {case.etp} does not divide the {case.gpus // case.pp} GPUs of a stage")
    if model.heads and model.heads % case.tp:
        raise UsageError(f"TP {case.tp} does not divide the {model.heads} attention heads")
    return case


def _resolved(asked: Asked, workload: Workload | None, size: str | None, workspace: Workspace) -> RunSpec | None:
    """The catalog's configuration for this GPU type and scale, else its row for another type; None if it has none."""
    from llmbx.api.verbs import Request

    assert workload is not None and asked.gpu_type is not None
    named = _dtype(asked.dtype) if asked.dtype else None
    dtype = LOW.get(named, named) if named else None
    others = sorted(
        {one for recipe in workload.recipes for row in recipe.rows for one in row.gpu_types if row.size == size}
    )
    for gpu_type in (asked.gpu_type, *(one for one in others if one in known_rates())):
        request = Request(workload=workload.name, plugin=workload.plugin, size=size, dtype=dtype, gpu_type=gpu_type,
                          gpus=asked.gpus)  # fmt: skip
        try:
            spec = workspace.resolve(request)
        except UsageError:
            continue
        if all(finding.warning for finding in spec.findings):
            return spec
    return None


def of_spec(
    spec: RunSpec, model: Model, workload: Workload, dtype: str | None = None, release: str | None = None
) -> Case:  # fmt: skip
    """The configuration of a specification, with another dtype or release if they are given.

    Raises `UsageError` for a dtype without rates.
    """
    p, narrow = spec.parallelism, dtype is None and spec.dtype == "fp8" and spec.settings.get("fp8_recipe") == "mx"
    dtype = "mxfp8" if narrow else dtype or spec.dtype
    released, again = release or _release_of(spec, workload), _recomputed(spec)
    return Case(
        model=model, gpu_type=spec.gpu_type, gpus=spec.gpus, dtype=_dtype(dtype), gbs=spec.global_batch_size,
        mbs=spec.micro_batch_size, seq=spec.model.sequence_length, tp=p.tp, pp=p.pp, cp=p.cp, ep=p.ep or 1,
        etp=p.etp or (p.tp if model.experts else 1), vp=p.vp or 1, fsdp=bool(p.fsdp),
        recompute="full" if again >= 1 else "selective" if again else "none",
        recomputed=again if again < 1 else 0.0, offload_layers=spec.offload_layers,
        stack=_stack(spec.driver), when=when_of(released), release=released,
    )  # fmt: skip


def _recomputed(spec: RunSpec) -> float:
    """The share of the layers that are recomputed as a whole: so many of each virtual pipeline stage."""
    p = spec.parallelism
    return min(1.0, (spec.recompute_layers or 0) * p.pp * (p.vp or 1) / spec.model.layers)


def _release_of(spec: RunSpec, workload: Workload) -> str:
    """The year and month in which the recipe was released; empty if it has none."""
    released = next((recipe.released for recipe in workload.recipes if recipe.name == spec.recipe), "")
    return released if re.match(r"\d\d\.\d\d", released) else ""


def _stack(driver: str) -> str:
    return "maxtext" if driver.startswith("maxtext") else driver


def when_of(release: str, default: float = 2026.63) -> float:
    """The date in years of a release named by year and month (25.09). Raises `UsageError` for another name."""
    if not release:
        return default
    found = re.fullmatch(r"v?(\d\d)\.(\d\d)(?:\.(\d\d))?", release)
    if found is None or not 1 <= int(found[2]) <= 12:
        raise UsageError(f"--release {release}: expected year and month, for example 26.04")
    return round(2000 + int(found[1]) + (int(found[2]) - 0.5) / 12 + 0.02 * int(found[3] or 0), 3)


def _dtype(name: str) -> str:
    name = OTHER_NAMES.get(name, name)
    if name not in DTYPES:
        raise UsageError(f"--dtype {name}: no prediction for this dtype{did_you_mean(name, DTYPES)}: "
                         f"expected {', '.join(DTYPES)}")  # fmt: skip
    return name


def _of_nearest(model: Model, asked: Asked, rows: Sequence[Row]) -> tuple[Case, str]:
    """The nearest published configuration of the model, scaled to the GPUs asked for; a plain one if there is none."""
    assert asked.gpu_type is not None and asked.gpus is not None
    dtype = _dtype(asked.dtype or ("bf16" if asked.gpu_type == "a100" else "fp8"))
    plain = Case(model=model, gpu_type=asked.gpu_type, gpus=asked.gpus, dtype=dtype, gbs=asked.gpus * 16, seq=model.seq,
                 when=when_of(asked.release or ""), release=asked.release or "")  # fmt: skip
    cases = [(row, case) for row in rows if _is_base(row, model) and (case := row.case())]
    if not cases:
        return plain.replace(gbs=16 * asked.gpus, ep=_experts_in(model, asked.gpus)), "no published configuration"
    if asked.dtype is None:
        plain = plain.replace(dtype=min(cases, key=lambda pair: distance(plain, pair[1]))[1].dtype)
    row, case = min(cases, key=lambda pair: _apart(plain, pair[1]))
    release = asked.release or case.release
    scaled = case.replace(
        model=model, gpu_type=asked.gpu_type, gpus=asked.gpus, dtype=plain.dtype,
        when=when_of(release, case.when) if asked.release else case.when, release=release,
    )  # fmt: skip
    return _fitted(scaled, case), f"{row.source} {row.release}: {row.gpus} x {row.gpu_type} {row.dtype}"


def _is_base(row: Row, model: Model) -> bool:
    return row.model == model.name and row.task == "pretrain" and row.tp is not None and row.note != "functional"


def _apart(plain: Case, case: Case) -> float:
    return distance(plain.replace(stack=case.stack, when=case.when), case) - 0.05 * case.when


def _experts_in(model: Model, gpus: int) -> int:
    return max((n for n in (1, 2, 4, 8) if gpus % n == 0 and model.experts % n == 0), default=1) if model.experts else 1


def _fitted(case: Case, published: Case) -> Case:
    """The configuration with the published batch per GPU, and with degrees halved until they divide the GPUs."""
    while case.gpus % (case.tp * case.pp * case.cp) or case.gpus % (case.pp * case.ep * case.etp):
        for name in ("ep", "cp", "pp", "tp", "etp"):
            if getattr(case, name) > 1 and (name != "ep" or case.gpus % (case.pp * case.ep * case.etp)):
                case = case.replace(**{name: max(1, getattr(case, name) // 2)})
                break
        else:
            break
    unit = int(case.mbs * case.dp)
    gbs = published.gbs * case.gpus / published.gpus
    vp = case.vp if case.pp > 1 else 1
    return case.replace(gbs=max(1, round(gbs / unit)) * unit, vp=vp)
