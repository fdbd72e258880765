"""From the words on the command line to a configuration: a workload of the catalog, or a model of the table."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llmbx.api import Row as CatalogRow
from llmbx.api import RunSpec, UsageError, did_you_mean, dtype_name

from .atlas.near import distance, generation, gpus_apart
from .case import ENGINES, OTHER_STACK, Case
from .cost.model import Model, known, of_shape, terms
from .cost.rates import LOW, WIDE, rates
from .cost.rates import known as known_rates
from .validity import check, refusal

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
LAYOUT = ("tp", "pp", "cp", "ep", "etp", "vp", "fsdp", "micro_batch_size", "recompute_layers", "offload_layers")
"""Settings of a run that change its layout."""
CHANGED = ", changed"
"""End of the name of a model whose shape the user changed."""
SAMPLE = 4096
"""Tokens of a sample with which parameters are counted, which do not depend on it."""
RECOMPUTE = ("none", "selective", "full")
DTYPES = (*WIDE, *LOW)


@dataclasses.dataclass(frozen=True)
class Question:
    """What the command line asks for; None is not set."""

    names: tuple[str, ...]
    size: str | None = None
    dtype: str | None = None
    gpu_type: str | None = None
    gpus: int | None = None
    release: str | None = None
    recipe: str | None = None
    stack: str | None = None
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Target:
    """A configuration, and where the values come from that the user did not set. `spec` is the catalog's, if any.

    `published` says what is published for exactly this work, in one line.
    """

    case: Case
    base: str
    spec: RunSpec | None = None
    published: str | None = None


def model_of(question: Question, workspace: Workspace) -> tuple[Model, Workload | None, str | None]:
    """The model of the question, with the catalog's workload and size if it is one of the catalog.

    Raises `UsageError` with a suggestion for an unknown name.
    """
    name = question.names[-1]
    model = next((item for item in known().values() if name.lower() in _names(item)), None)
    catalogued = _in_catalog(question, workspace, model)
    if catalogued is not None:
        workload, size = catalogued
        return of_shape(workload.sizes[size].model, f"{workload.name}-{size}"), workload, size
    if model is not None:
        if question.size is not None:
            raise UsageError(f"--size {question.size}: {model.name} is one model and has no sizes")
        return model, None, None
    names = [*known(), *(workload.name for workload in workspace.plugins.workloads)]
    raise UsageError(f"no workload or model named '{name}'{did_you_mean(name.lower(), names)}: "
                     "`llmbx atlas` and `llmbx list` show all")  # fmt: skip


def _names(model: Model) -> tuple[str, ...]:
    return model.name, *(alias.lower() for alias in model.aliases)


def _in_catalog(question: Question, workspace: Workspace, model: Model | None) -> tuple[Workload, str] | None:
    """The catalog's workload and size that the words name, or that is the model they name; None if it has none."""
    from llmbx.api.verbs import which_workload

    plugins = workspace.plugins
    workloads = {name for item in plugins.workloads for name in (item.name, *item.aliases)}
    name, plugin = which_workload(question.names, None, None)
    name, size = plugins.workload_and_size(name, question.size)
    if name not in workloads and model is not None:
        name, size = plugins.workload_and_size(model.name, question.size)
    if name not in workloads:
        if plugin is not None:
            plugins.workload(name, plugin)
        return None
    workload = plugins.workload(name, plugin)
    size = size or workload.default_size or next(iter(workload.sizes))
    if size not in workload.sizes:
        raise UsageError(f"{workload.name} has no size '{size}'{did_you_mean(size, workload.sizes)}")
    return workload, size


def target(question: Question, rows: Sequence[Row], workspace: Workspace) -> Target:
    """The configuration of the question: the catalog's, else the nearest published one, with the changes of --set.

    Raises `UsageError` if GPU type or number of GPUs is missing and not the only one, and for unknown or impossible
    settings.
    """
    typed, question = question, _as_a_run(question, workspace)
    model, workload, size = model_of(question, workspace)
    question = _on_known_gpus(question, model, rows, _scales(workload, size, question.recipe) if workload else {})
    assert question.gpu_type is not None
    rates(question.gpu_type).peak(_dtype(question.dtype or "bf16"))
    _check_stack(question.stack, rows)
    shape, settings = _split(question.settings)
    model = _reshaped(model, shape)
    if any(row.stack == question.stack for row in _bases(model, question.gpu_type, rows)):
        rows, workload = [row for row in rows if row.stack == question.stack], None
    spec = _resolved(question, workload, size, workspace) if workload is not None else None
    as_a_run = question is not typed
    if spec is not None and workload is not None and (as_a_run or not _nearer(spec, model, question, rows)):
        model = _reshaped(of_shape(spec.model, f"{workload.name}-{spec.size}"), shape)  # a row may have fewer layers
        return _of_catalog(spec, model, workload, question, settings, workspace)
    if question.recipe is not None:
        raise UsageError(
            f"--recipe {question.recipe}: no configuration of {question.names[-1]} for {question.gpu_type}"
        )
    case, base = _of_nearest(model, question, rows)
    case = case.replace(stack=question.stack or case.stack)
    if "gbs" in settings:
        return Target(_changed(case, settings), base)
    whole = {**settings, "gbs": str(_divisible(case, settings))}
    return Target(_changed(case, whole), base)


def _as_a_run(question: Question, workspace: Workspace) -> Question:
    """The question with what `llmbx run` would use for these words on this machine, or by the cluster profile.

    Unchanged if a GPU type is asked for, or if neither machine nor profile has one.
    """
    from llmbx.api.verbs import Request, which_workload

    if question.gpu_type is not None:
        return question
    plugins = workspace.plugins
    name, plugin = which_workload(question.names, None, None)
    name, size = plugins.workload_and_size(name, question.size)
    request = Request(
        workload=name,
        plugin=plugin,
        size=size,
        dtype=question.dtype,
        gpus=question.gpus,
        recipe=question.recipe,
    )
    try:
        spec = workspace.resolve(request)
    except UsageError:
        return question
    if spec.gpu_type == "cpu":
        return question
    return dataclasses.replace(
        question,
        names=(spec.plugin, spec.workload),
        size=spec.size,
        dtype=spec.dtype,
        gpu_type=spec.gpu_type,
        gpus=spec.gpus,
    )


def _check_stack(stack: str | None, rows: Sequence[Row]) -> None:
    """Raise `UsageError` for a stack that is neither a known one nor one of a figure."""
    stacks = dict.fromkeys((*ENGINES, OTHER_STACK, *(row.stack for row in rows)))
    if stack is not None and stack not in stacks:
        raise UsageError(f"--stack {stack}: expected {', '.join(stacks)}{did_you_mean(stack, stacks)}")


def _nearer(spec: RunSpec, model: Model, question: Question, rows: Sequence[Row]) -> bool:
    """Whether the atlas has a layout of this generation of GPUs, and the catalog can run none on this GPU type."""
    assert question.gpu_type is not None
    mine = generation(question.gpu_type)
    if question.recipe is not None or spec.gpu_type == question.gpu_type or generation(spec.gpu_type) == mine:
        return False
    return any(generation(row.gpu_type) == mine for row in _bases(model, question.gpu_type, rows))


def _on_known_gpus(question: Question, model: Model, rows: Sequence[Row], catalog: Mapping[str, set[int]]) -> Question:
    """Complete the request with the only GPU type and the only number of GPUs of the catalog, else of the atlas.

    Raises `UsageError` with the choices if there are several.
    """
    if question.gpu_type is not None and question.gpus is not None:
        return question
    published: dict[str, set[int]] = {}
    for row in rows:
        if row.model == model.name:
            published.setdefault(row.gpu_type, set()).add(row.gpus)
    scales = {name: counts for name, counts in (catalog or published).items() if name in known_rates()}
    types = [name for name, counts in scales.items() if question.gpus in counts] or list(scales)
    gpu_type = question.gpu_type or _only("--gpu-type", model.name, types)
    rates(gpu_type)
    counts = sorted(scales.get(gpu_type) or published.get(gpu_type, set()))
    gpus = question.gpus or int(_only("--gpus", f"{model.name} on {gpu_type}", [str(count) for count in counts]))
    return dataclasses.replace(question, gpu_type=gpu_type, gpus=gpus)


def _only(option: str, what: str, choices: Sequence[str]) -> str:
    if len(choices) == 1:
        return choices[0]
    examples = f", for example {', '.join(choices)}" if choices else ""
    raise UsageError(f"{what}: add {option}{examples}")


def _of_catalog(
    spec: RunSpec,
    model: Model,
    workload: Workload,
    question: Question,
    settings: Mapping[str, str],
    workspace: Workspace,
) -> Target:
    """The catalog's configuration, scaled to the requested GPUs, with the changes. Raises `UsageError` for a change
    that the framework refuses.
    """
    assert question.gpu_type is not None and question.gpus is not None
    base = f"catalog, recipe {spec.recipe}, row of {spec.row_gpu_type}"
    reshaped = model.name.endswith(CHANGED) or model.layers != spec.model.layers
    row = of_spec(spec, model, workload, question.dtype, question.release)
    row = row.replace(chosen=not reshaped and not spec.layout_of)
    mine = row.replace(gpu_type=question.gpu_type, gpus=question.gpus)
    case = row if mine == row else _fitted(mine, row)
    batch: dict[str, str] = {}
    if question.gpus != spec.row_gpus:
        base += f" for {spec.row_gpus} GPUs, scaled"
        batch = {"gbs": str(_divisible(case, settings))}
    if any(getattr(case, name) != getattr(row, name) for name in ("tp", "pp", "cp", "ep", "etp")):
        base += ", in another layout, since that of the row does not fit these GPUs"
    case = case.replace(stack=question.stack or case.stack)
    changed = _changed(case, {**batch, **settings})
    own = case.stack == row.stack and spec.gpu_type == question.gpu_type and not model.name.endswith(CHANGED)
    framework = workspace.plugins.framework(spec.plugin)
    if question.settings and own and (problem := refusal(changed, spec, framework.check_spec)):
        raise UsageError(problem)
    unchanged = changed == row and question.release is None and question.dtype in (None, spec.dtype)
    published = _published(spec, workload) if unchanged else None
    return Target(changed, base, spec.replace(gpu_type=question.gpu_type), published)


def _published(spec: RunSpec, workload: Workload) -> str:
    row = spec.exact_row(workload)
    if row is None or row.step_time_s is None:
        return f"none: {spec.why_no_figure(workload)}"
    return f"{row.step_time_s:g} s per step, {row.source}"


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
    if not re.fullmatch(r"\d{1,12}", text) or (int(text) < 1 and key not in SHAPE):
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
    if min(changed.layers, changed.hidden, changed.heads, changed.vocab) < 1:
        raise UsageError("--set: layers, hidden, heads and vocab must be >= 1")
    if changed.heads % (changed.groups or changed.heads):
        raise UsageError(f"--set groups={changed.groups}: does not divide the {changed.heads} heads")
    if changed.experts and changed.top_k > changed.experts:
        raise UsageError(f"--set top_k={changed.top_k}: {changed.name} has {changed.experts} experts")
    if changed.layers < max(changed.dense_layers, changed.ssm_layers + (changed.attention_layers or 0)):
        raise UsageError(f"--set layers={changed.layers}: {model.name} has more layers of one kind")
    return changed if set(values) <= {"layers"} else changed.replace(name=model.name + CHANGED)


def _changed(case: Case, settings: Mapping[str, str]) -> Case:
    values: dict[str, Any] = _consequences(case, settings)
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
    changed = case.replace(**values)
    return check(changed if changed.layout == case.layout else changed.replace(chosen=False))


def _consequences(case: Case, settings: Mapping[str, str]) -> dict[str, Any]:
    """What follows from the pipeline: none has no virtual stages, one no offloaded layers, and Megatron's no FSDP."""
    if "pp" not in settings:
        return {}
    if settings["pp"] == "1":
        return {"vp": 1}
    return {"fsdp": case.fsdp and case.engine != "megatron", "offload_layers": 0}


def _resolved(question: Question, workload: Workload | None, size: str | None, workspace: Workspace) -> RunSpec | None:
    """The catalog's configuration for this GPU type and scale, else for the nearest scale or another type.

    None if it has none.
    """
    from llmbx.api.verbs import Request

    assert workload is not None and question.gpu_type is not None and question.gpus is not None
    named = _dtype(question.dtype) if question.dtype else None
    dtypes = list(dict.fromkeys((named, LOW.get(named, named)))) if named else [None]
    for gpu_type, gpus, dtype in _tries(
        question.gpu_type, question.gpus, dtypes, _scales(workload, size, question.recipe)
    ):
        request = Request(workload=workload.name, plugin=workload.plugin, size=size, dtype=dtype, gpu_type=gpu_type,
                          gpus=gpus, recipe=question.recipe)  # fmt: skip
        try:
            spec = workspace.resolve(request)
        except UsageError:
            continue
        if all(finding.warning for finding in spec.findings):
            return spec
    return None


def _scales(workload: Workload, size: str | None, recipe: str | None) -> dict[str, set[int]]:
    """The numbers of GPUs of a size's rows, by GPU type."""
    from llmbx.api.verbs import scales_of

    scales: dict[str, set[int]] = {}
    for row in (row for each in workload.recipes if recipe in (None, each.name) for row in each.rows):
        if row.size == size:
            for gpu_type in row.gpu_types:
                scales.setdefault(gpu_type, set()).update(scales_of(row.gpus))
    return scales


def _tries(
    gpu_type: str, gpus: int, dtypes: Sequence[str | None], scales: Mapping[str, set[int]]
) -> Iterator[tuple[str, int, str | None]]:
    """The GPU type asked for with its nearest scales, then the other types with theirs, the most similar first."""
    others = sorted(
        (name for name in scales if name != gpu_type and name in known_rates()),
        key=lambda name: (gpus_apart(gpu_type, name), name),
    )
    for candidate in (gpu_type, *others):
        nearest = sorted(scales.get(candidate, ()), key=lambda count: abs(math.log2(count / gpus)))
        yield from ((candidate, count, dtype) for count in dict.fromkeys((gpus, *nearest)) for dtype in dtypes)


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
        token_drop=spec.settings.get("moe_token_drop") is True,
        chosen=not spec.layout_of and not any(spec.origins.get(name, "").startswith("--set") for name in LAYOUT),
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
    match = re.fullmatch(r"v?(\d\d)\.(\d\d)(?:\.(\d\d))?", release)
    if match is None or not 1 <= int(match[2]) <= 12:
        raise UsageError(f"--release {release}: expected year and month, for example 26.04")
    return round(2000 + int(match[1]) + (int(match[2]) - 0.5) / 12 + 0.02 * int(match[3] or 0), 3)


def _dtype(name: str) -> str:
    name = dtype_name(name)
    if name not in DTYPES:
        raise UsageError(f"--dtype {name}: no prediction for this dtype{did_you_mean(name, DTYPES)}")
    return name


def _of_nearest(model: Model, question: Question, rows: Sequence[Row]) -> tuple[Case, str]:
    """The nearest published configuration, scaled to the GPUs asked for; a plain one if there is none."""
    assert question.gpu_type is not None and question.gpus is not None
    dtype = _dtype(question.dtype or ("bf16" if question.gpu_type == "a100" else "fp8"))
    plain = Case(
        model=model,
        gpu_type=question.gpu_type,
        gpus=question.gpus,
        dtype=dtype,
        gbs=question.gpus * 16,
        seq=model.seq,
        when=when_of(question.release or ""),
        release=question.release or "",
    )
    cases = [(row, case) for row in _bases(model, question.gpu_type, rows) if (case := row.case())]
    if not cases:
        return plain.replace(gbs=16 * question.gpus, ep=_experts_in(model, question.gpus)), "no published configuration"
    if question.dtype is None:
        plain = plain.replace(dtype=min(cases, key=lambda pair: distance(plain, pair[1]))[1].dtype)
    row, case = min(cases, key=lambda pair: _apart(plain, pair[1]))
    release = question.release or case.release
    scaled = case.replace(
        model=model, gpu_type=question.gpu_type, gpus=question.gpus, dtype=plain.dtype,
        when=when_of(release, case.when) if question.release else case.when, release=release,
    )  # fmt: skip
    base = f"{row.source} {row.release}: {row.gpus} x {row.gpu_type} {row.dtype}"
    if row.model == model.name:
        return _fitted(scaled, case), base
    return _fitted(_suited(scaled, case), case), f"{base}, layout of {row.model}"


def _bases(model: Model, gpu_type: str, rows: Sequence[Row]) -> list[Row]:
    """The rows whose layout a configuration of this model can have: the model's own.

    If they are of other generations of GPUs, those of similar models on this GPU type, if there are any.
    """
    rows = [row for row in rows if row.task == "pretrain" and row.tp is not None and row.is_benchmark]
    mine = [row for row in rows if row.model == model.name]
    if any(generation(row.gpu_type) == generation(gpu_type) for row in mine):
        return mine
    return [row for row in rows if row.gpu_type == gpu_type and _similar(row.shape(), model)] or mine


def _similar(a: Model, b: Model) -> bool:
    """Whether the layout of one model suits the other: of one family, with up to twice the parameters."""
    if a.family != b.family or not (a.has_shape and b.has_shape):
        return False
    sizes = [sum(term.parameters for term in terms(model, SAMPLE)) for model in (a, b)]
    return max(sizes) <= 2 * min(sizes)


def _suited(case: Case, published: Case) -> Case:
    """The published layout for another model: with its sequence and as many tokens, and degrees that divide it."""
    model, shorter = case.model, published.seq / case.model.seq
    ep = max(n for n in range(1, case.ep + 1) if model.experts % n == 0) if model.experts else 1
    tp = max(n for n in range(1, case.tp + 1) if not model.heads or model.heads % n == 0)
    pp = case.pp if model.layers % case.pp == 0 else 1
    vp = case.vp if model.layers % (pp * case.vp) == 0 else 1
    mbs = max(1, round(case.mbs * shorter))
    return case.replace(seq=model.seq, mbs=mbs, ep=ep, tp=tp, pp=pp, vp=vp)


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
    batch = max(1, round(published.gbs * published.seq / case.seq))
    whole = CatalogRow.scaled_batch(batch, published.gpus, case.gpus)
    gbs = whole or batch * case.gpus / published.gpus
    fitted = case.replace(gbs=max(1, round(gbs / unit)) * unit, vp=case.vp if case.pp > 1 else 1)
    return fitted.replace(chosen=published.chosen and _run(fitted) == _run(published))


def _run(case: Case) -> tuple[object, ...]:
    """A layout, and the run that it was chosen for."""
    return case.model.name, case.model.layers, case.gpu_type, case.layout
