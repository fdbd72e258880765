"""Select the published figures for a question, nearest configuration first, and the standing of a figure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llmbx.api import UsageError, Value, did_you_mean

from ..case import Case
from ..cost.model import Model
from .near import differences
from .row import Row
from .standing import Spread, Standing, spreads, standing

if TYPE_CHECKING:
    from llmbx.api.verbs import Workspace

    from ..planner import Choice
    from ..question import Question

CONVENTION = "causal"
"""The convention of `tflops_per_gpu` in every row."""


class Mine(Value, frozen=True):
    """A finished run of the user, as far as its standing needs it."""

    workload: str
    size: str
    gpu_type: str
    gpus: int
    dtype: str
    gbs: int
    rate: float
    name: str


class Listing(Value, frozen=True):
    """The answer to a question: rows with their figures, and the standing of a run or rate."""

    model: str
    gpu_type: str | None
    gpus: int | None
    dtype: str | None
    flops_convention: str
    rows: list[dict[str, Any]]
    organizations: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    standing: Standing | None = None
    spreads: list[Spread] = []

    def lines(self) -> list[str]:
        """Who is behind the figures of the model, the standing and the spreads in words."""
        cell = " ".join(filter(None, (self.model, self.gpu_type, self.dtype)))
        names = ", ".join(self.organizations)
        lines = (
            [f"{cell}: figures of {names} ({len(self.organizations)}) in {len(self.releases)} releases"]
            if names
            else []
        )
        if (standing := self.standing) is not None:
            place = (
                f"percentile {standing.percentile:.0f}, median {standing.median:.0f}, fastest {standing.fastest:.0f}"
                if standing.percentile is not None and standing.median is not None and standing.fastest is not None
                else "too few for a percentile"
            )
            rate, among = standing.tokens_per_s_per_gpu, f"{standing.among} published figures ({standing.of})"
            lines.append(f"{rate:.0f} tokens/s per GPU among {among}: {place}")
        for item in self.spreads[:6]:
            lines.append(
                f"{item.source}: {item.organizations} organizations with {item.gpus} x {item.gpu_type}, GBS {item.gbs} "
                f"({item.task}): {item.fastest_s:.4g} to {item.slowest_s:.4g} s, the slowest "
                f"{item.slowest_above_fastest_percent:.1f} % above the fastest"
            )
        return lines


def of_run(name: str, workspace: Workspace) -> Mine:
    """A finished run by its id, folder or `last`. Raises `UsageError` if it was not measured."""
    from llmbx.api.verbs import refresh_result

    run = workspace.find_run(name)
    result, spec = refresh_result(run, workspace.plugins), run.record.spec
    rate = result.tokens_per_s_per_gpu if result is not None else None
    if rate is None:
        raise UsageError(f"--run {name}: {run.record.run_id} has no measured tokens/s")
    if spec.mini:
        raise UsageError(f"--run {name}: {run.record.run_id} is a mini, which no published figure is comparable with")
    return Mine(workload=spec.workload, size=spec.size, gpu_type=spec.gpu_type, gpus=spec.gpus, dtype=spec.dtype,
                gbs=spec.global_batch_size, rate=rate, name=run.record.run_id)  # fmt: skip


def build(question: Question, rows: Sequence[Row], workspace: Workspace, near: int, task: str | None, mine: Mine | None,
          rate: float | None) -> Listing:  # fmt: skip
    """The rows of the model with these options, then the `near` nearest of other models. Raises `UsageError`."""
    from ..question import model_of

    if rate is not None and not math.isfinite(rate):
        raise UsageError(f"--rate {rate:g}: expected tokens/s per GPU")
    model, _, _ = model_of(question, workspace)
    gpu_type, dtype = (
        question.gpu_type or (mine.gpu_type if mine else None),
        question.dtype or (mine.dtype if mine else None),
    )
    gpus = question.gpus or (mine.gpus if mine else None)
    _check(question.gpu_type, question.dtype, question.release, rows)
    criteria = {"gpu_type": gpu_type, "dtype": dtype, "release": question.release, "task": task}
    matching = [row for row in rows if _matches(row, criteria)]
    same = [row for row in matching if row.model == model.name]
    centre = _centre(model, gpu_type, gpus, dtype, task, same)
    shown = _ranked(same, centre) + _ranked([row for row in matching if row.model != model.name], centre)[:near]
    rate = mine.rate if mine else rate
    return Listing(
        model=model.name, gpu_type=gpu_type, gpus=gpus, dtype=dtype, flops_convention=CONVENTION,
        rows=[_flat(row, centre) for row in shown],
        organizations=tuple(sorted({row.organization or row.source for row in same})),
        releases=tuple(sorted({f"{row.source} {row.release}" for row in same})),
        standing=_standing(rate, same, criteria, mine) if rate is not None else None,
        spreads=spreads([row for row in rows if _matches(row, {**criteria, "dtype": None}) and row.model == model.name
                         and gpus in (None, row.gpus)]),
    )  # fmt: skip


def _check(gpu_type: str | None, dtype: str | None, release: str | None, rows: Sequence[Row]) -> None:
    """Raise `UsageError`, with a suggestion, for a value that no row has."""
    options = (("--gpu-type", gpu_type, "gpu_type"), ("--dtype", dtype, "dtype"), ("--release", release, "release"))
    for option, value, name in options:
        values = {getattr(row, name) for row in rows} - {None, ""}
        if value is not None and value not in values:
            raise UsageError(f"{option} {value}: no published figure has it{did_you_mean(value, values)}")


def _matches(row: Row, criteria: dict[str, str | None]) -> bool:
    """Whether a row has what is wanted. A row whose dtype is not published matches none."""
    return all(value in (None, getattr(row, name)) for name, value in criteria.items())


def _standing(rate: float, same: Sequence[Row], criteria: dict[str, str | None], mine: Mine | None) -> Standing:
    of = ", ".join(value for name, value in criteria.items() if value and name != "task") or "all"
    task = criteria["task"] or "pretrain"
    place = standing(rate, [row for row in same if row.task == task and row.layers is None], of)
    return place.replace(of=f"{place.of}; {mine.name}") if mine else place


def _centre(model: Model, gpu_type: str | None, gpus: int | None, dtype: str | None, task: str | None,
            same: Sequence[Row]) -> Case:  # fmt: skip
    """The configuration that distances are measured from: the question, completed by the newest row of the model."""
    newest = max((case for row in same if (case := row.case())), key=lambda case: case.when, default=None)
    centre = newest or Case(model=model, gpu_type=gpu_type or "h100", gpus=gpus or 64, dtype=dtype or "bf16",
                            gbs=(gpus or 64) * 16, seq=model.seq)  # fmt: skip
    options: dict[str, Any] = {"gpu_type": gpu_type, "gpus": gpus, "dtype": dtype, "task": task}
    return centre.replace(model=model, **{name: value for name, value in options.items() if value is not None})


def _ranked(rows: Sequence[Row], centre: Case) -> list[Row]:
    return sorted(rows, key=lambda row: (_distance(row, centre) is None, _distance(row, centre) or 0.0, -row.when))


def _distance(row: Row, centre: Case) -> float | None:
    return sum(_apart(row, centre).values()) if _case(row) is not None else None


def _case(row: Row) -> Case | None:
    """The configuration of a row; one whose dtype is not published is taken as BF16, only for its distance."""
    return (row if row.dtype else row.replace(dtype="bf16")).case()


def _apart(row: Row, centre: Case) -> dict[str, float]:
    case = _case(row)
    return differences(centre, case) if case is not None else {}


def _flat(row: Row, centre: Case) -> dict[str, Any]:
    """A row for the table, JSON and CSV."""
    apart = _apart(row, centre)
    fields = {name: getattr(row, name) for name in row.__struct_fields__}
    return fields | {
        "tflops_per_gpu": row.tflops_per_gpu(), "flops_convention": CONVENTION, "layout": layout(row),
        "distance": sum(apart.values()) if _case(row) is not None else None, "differs_in": ", ".join(apart),
    }  # fmt: skip


def layout(row: Row) -> str:
    """The degrees of parallelism of a row, and its layers if it has another number of them than its model."""
    return " ".join([degrees(row), *([f"L{row.layers}"] if row.layers else [])]).strip()


def degrees(configuration: Row | Choice) -> str:
    """The degrees of parallelism above 1 and the micro-batch size, in the recipes' letters."""
    values = [(name, getattr(configuration, name)) for name in ("tp", "pp", "cp", "ep", "etp", "vp", "mbs")]
    texts = [f"{name.upper()}{value}" for name, value in values if value and (value > 1 or name == "mbs")]
    return " ".join([*texts, *(["FSDP"] if configuration.fsdp else [])])


def models(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One line for each model: how many rows, on which GPUs, from where."""
    by_model = defaultdict(list)
    for row in rows:
        by_model[row.model].append(row)
    return [
        {
            "model": name, "rows": len(cell), "gpu_types": sorted({row.gpu_type for row in cell}),
            "gpus": _span([row.gpus for row in cell]),
            "organizations": len({row.organization or row.source for row in cell}),
            "releases": len({(row.source, row.release) for row in cell}),
            "sources": sorted({row.source for row in cell}),
        }
        for name, cell in sorted(by_model.items())
    ]  # fmt: skip


def _span(numbers: Sequence[int]) -> str:
    return str(min(numbers)) if min(numbers) == max(numbers) else f"{min(numbers)}-{max(numbers)}"
