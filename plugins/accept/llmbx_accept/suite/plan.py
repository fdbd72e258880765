"""From a suite and a site to the items of an acceptance. All of them are resolved before the first one starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmbx.api import LlmbxError, RunSpec, Scalar, UsageError
from llmbx.api.verbs import Request, parse_fraction

from .definition import Entry, Limits, Suite, scales_of_entry
from .item import Criteria, Item, Site
from .registry import kind

CPU, MINI = "cpu", "mini"


def items_of(suite: Suite, site: Site) -> tuple[Item, ...]:
    """The items of the suite on this site, each with its expected hours.

    Raises one `UsageError` that lists all items that cannot run, with the reasons.
    """
    planned: dict[str, Item] = {}
    problems: list[str] = []
    for entry in suite.items:
        for item in _items(entry, site, problems):
            planned.setdefault(item.key, item)  # on CPUs, several scales are the same mini
    if site.gpu_type == CPU and planned and all(item.problem for item in planned.values()):
        problems = [f"{item.key}: {item.problem}" for item in planned.values()]
    if problems:
        lines = [f"  {problem}" for problem in problems]
        raise UsageError("\n".join([f"{len(problems)} items cannot run; nothing was started:", *lines]))
    if not planned:
        types = sorted({name for entry in suite.items if isinstance(entry.dtype, dict) for name in entry.dtype})
        raise UsageError(f"the suite has nothing for {site.gpu_type}, only for {', '.join(types)}")
    return tuple(planned.values())


def _items(entry: Entry, site: Site, problems: list[str]) -> Iterator[Item]:
    criteria = _criteria(entry.criteria)
    if not entry.runs_workload:
        plain = Item(
            key=entry.kind,
            kind=entry.kind,
            nodes=site.nodes,
            settings=entry.settings,
            criteria=criteria,
            gpus=_count(site),
        )
        yield _timed(plain, site)
        return
    for request in _requests(entry, site):
        try:
            spec = _resolved(request, entry, site)
        except LlmbxError as error:
            why = " ".join(str(error).split())
            if site.gpu_type == CPU:  # not every workload has a mini
                yield Item(key=f"{entry.workload} {MINI}", kind=entry.kind, criteria=criteria, problem=why)
            else:
                problems.append(f"{_name(request)}: {why}")
            continue
        item = Item(
            key=_key(entry, request, spec),
            kind=entry.kind,
            nodes=site.nodes,
            settings=entry.settings,
            criteria=criteria,
            spec=spec,
            set=request.settings,
            repeats=entry.repeats,
            gpus=0 if spec.gpu_type == CPU else spec.gpus if entry.kind == "workload" else _count(site),
        )
        yield _timed(item, site)


def _timed(item: Item, site: Site) -> Item:
    hours, source = kind(item.kind).hours(item, site)
    timed: Item = item.replace(hours=hours, hours_from=source)
    return timed


def _count(site: Site) -> int:
    """The GPUs of all nodes."""
    return 0 if site.gpu_type == CPU else site.node_count * site.gpus_per_node


def _criteria(limits: Limits) -> Criteria:
    return Criteria(
        published=None if limits.published is None else parse_fraction(limits.published, "published"),
        predicted=limits.predicted,
        efficiency=None if limits.efficiency is None else parse_fraction(limits.efficiency, "efficiency"),
        suspects=limits.suspects,
    )


def _requests(entry: Entry, site: Site) -> Iterator[Request]:
    """A request for each combination of size, dtype and scale; on CPUs the workload's mini in their place."""
    for size, dtype in _models(entry, site):
        for gpus in _scales(entry, site):
            yield site.request.replace(
                workload=entry.workload,
                plugin=entry.plugin,
                recipe=entry.recipe if site.gpu_type != CPU else None,
                size=size,
                dtype=dtype,
                gpus=gpus,
                steps=entry.steps,
                window=entry.window,
                walltime_minutes=entry.walltime_minutes or site.request.walltime_minutes,
                settings={key: _text(value) for key, value in entry.set.items()},
            )


def _models(entry: Entry, site: Site) -> list[tuple[str | None, str | None]]:
    if site.gpu_type == CPU:
        return [(MINI, None)]
    dtypes = entry.dtype.get(site.gpu_type, ()) if isinstance(entry.dtype, dict) else _names(entry.dtype)
    return [(size, dtype) for size in _names(entry.size) for dtype in dtypes]


def _names(value: str | tuple[str, ...] | None) -> Sequence[str | None]:
    return value if isinstance(value, tuple) else (value,)


def _scales(entry: Entry, site: Site) -> list[int]:
    """The numbers of GPUs; on CPUs at most as many ranks as the nodes have."""
    if entry.kind != "workload" and scales_of_entry(entry) not in (("node",), ("gpu",)):
        raise UsageError(f"an item of the kind {entry.kind} has gpus 'node' or 'gpu'")
    scales: list[int] = []
    for scale in scales_of_entry(entry):
        scales += _numbers(scale, site)
    if site.gpu_type == CPU:
        scales = [min(scale, site.node_count * site.gpus_per_node) for scale in scales]
    return sorted(set(scales))


def _numbers(scale: int | str, site: Site) -> list[int]:
    node, whole = site.gpus_per_node, site.node_count * site.gpus_per_node
    if isinstance(scale, int):
        return [scale]
    if scale == "node-all":
        doubled = [node << power for power in range(whole.bit_length()) if node << power < whole]
        return [*doubled, whole]
    return [{"gpu": 1, "node": node, "all": whole}[scale]]


def _resolved(request: Request, entry: Entry, site: Site) -> RunSpec:
    """The specification of a request, on the named nodes if there are any; it breaks no rule."""
    workspace = site.workspace
    spec = workspace.resolve(request)
    errors = [finding for finding in workspace.findings(spec) if not finding.warning]
    if errors:
        raise UsageError("; ".join(f"{finding.problem}; {finding.fix}" for finding in errors))
    if not site.nodes or entry.kind != "workload":
        return spec
    if spec.nodes > len(site.nodes):
        raise UsageError(f"it needs {spec.nodes} nodes, and {len(site.nodes)} are named")
    placed = workspace.plugins.launcher(spec.launcher).on_nodes(spec, site.nodes[: spec.nodes])
    if placed is None:
        raise UsageError(f"the launcher {spec.launcher} cannot choose nodes: leave out --nodes")
    return placed


def _key(entry: Entry, request: Request, spec: RunSpec) -> str:
    if entry.kind in ("speed", "pairs"):
        return entry.kind
    parts = [spec.workload, spec.size, spec.dtype, spec.gpu_type, str(spec.gpus)]
    parts += [f"recipe={spec.recipe}"] if request.recipe else []
    parts += [f"{key}={value}" for key, value in request.settings.items()]
    return " ".join([*(["each node:"] if entry.kind == "each-node" else []), *parts])


def _name(request: Request) -> str:
    parts = (
        request.workload,
        request.size,
        request.dtype,
        request.gpu_type,
        f"{request.gpus} GPUs",
    )
    return " ".join(part for part in parts if part)


def _text(value: Scalar) -> str:
    """A value as `--set` reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)
