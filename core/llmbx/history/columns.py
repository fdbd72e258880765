"""Columns of the history: the fields of a result by dotted name, and fields that only a listing has."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ..codec import convert
from ..errors import UsageError, did_you_mean
from ..model import Scalar, Value
from ..model.measure import MEASURE_NAME
from ..model.result import MEASURE_NUMBERS
from ..toml_file import NOT_JSON

Kind = Literal["text", "number", "count", "flag", "date", "words"]

COLUMNS: dict[str, Kind] = {
    "created": "date", "id": "text", "run_id": "text", "status": "text", "workload.name": "text",
    "workload.plugin": "text", "workload.size": "text", "workload.dtype": "text", "workload.gpu_type": "text",
    "workload.gpus": "count", "workload.layout_of": "text", "workload.scaled_from": "count",
    "tags": "words", "data_valid": "flag", "comparable": "flag", "profiled": "flag", "traced": "flag",
    "step_time_s.mean": "number", "step_time_s.std": "number", "step_time_s.median": "number",
    "step_time_s.min": "number", "step_time_s.max": "number", "stability.verdict": "text", "stability.reason": "text",
    "tflops_per_gpu.mean": "number",
    "tflops_per_gpu.std": "number", "tflops_per_gpu.source": "text", "tokens_per_s": "number",
    "tokens_per_s_per_gpu": "number", "mfu.value": "number", "mfu.formula": "text", "mfu.convention": "text",
    "mfu.peak_tflops": "number", "mfu.peak_name": "text", "days_per_1t_tokens": "number",
    "window.first": "count", "window.last": "count", "window.policy": "text", "window.reason": "text",
    "steps_measured": "count", "steps_seen": "count", "loss.first": "number", "loss.last": "number",
    "peak_memory_gb": "number", "recipe": "text", "runtime": "text", "launcher": "text", "job_id": "text",
    "group": "text", "attempt": "count", "exit_code": "count", "cause": "text", "cause_rank": "count",
    "cause_node": "text", "doubt": "text", "image.ref": "text",
    "image.digest": "text", "workload.sequence_length": "count", "workload.global_batch_size": "count",
    "workload.micro_batch_size": "count", "workload.parallelism.tp": "count", "workload.parallelism.pp": "count",
    "workload.parallelism.cp": "count", "workload.parallelism.ep": "count", "workload.parallelism.etp": "count",
    "workload.parallelism.dp": "count", "workload.parallelism.vp": "count", "workload.parallelism.fsdp": "count",
    "flops_per_sample.full": "number", "flops_per_sample.causal": "number", "timing.queue_s": "number",
    "timing.prepare_s": "number", "timing.first_step_s": "number", "timing.total_s": "number",
    **{f"expected.{figure}.{end}": "number" for figure in ("step_time_s", "tokens_per_s_per_gpu", "memory_gb")
       for end in ("value", "low", "high")},
    "expected.source": "text", "expected.unknown_because": "text",
    "gpu_hours": "number", "user": "text", "llmbx_version": "text", "experiment": "text",
    "measures": "text",
}  # fmt: skip
"""All columns with their kinds. Names with a dot, and most others, are those of `result.json`.

`measures` has the object of that name as JSON text; queries name its members: measures.NAME.mean, see `measure_kind`.
"""

MEASURE = re.compile(rf"measures\.({MEASURE_NAME})\.({'|'.join(MEASURE_NUMBERS)}|unit|kind)")
"""The column of a measure."""

SHORT = {
    "workload": "workload.name", "plugin": "workload.plugin", "size": "workload.size", "dtype": "workload.dtype",
    "gpu_type": "workload.gpu_type", "gpus": "workload.gpus", "scale": "workload.gpus", "date": "created",
    "tag": "tags", "step_time_s": "step_time_s.mean", "step_time_std_s": "step_time_s.std",
    "tflops_per_gpu": "tflops_per_gpu.mean", "mfu": "mfu.value", "loss": "loss.last", "image": "image.ref",
    "stability": "stability.verdict", "sequence_length": "workload.sequence_length",
    "gbs": "workload.global_batch_size",
    "global_batch_size": "workload.global_batch_size", "mbs": "workload.micro_batch_size",
    "micro_batch_size": "workload.micro_batch_size", "queue_s": "timing.queue_s", "total_s": "timing.total_s",
    **{letter: f"workload.parallelism.{letter}" for letter in ("tp", "pp", "cp", "ep", "etp", "dp", "vp", "fsdp")},
}  # fmt: skip
"""Aliases of columns, including those used by `llmbx jobs`."""

LARGEST = 2**63 - 1
"""Largest integer that the database stores."""

Values = dict[str, Scalar]


class Entry(Value, frozen=True):
    """One run as listed by `llmbx jobs`; `status` is that of the result, or of the job while the run is unfinished."""

    id: str
    run_id: str
    status: str
    created: float
    folder: str
    workload: str | None = None
    size: str | None = None
    dtype: str | None = None
    gpu_type: str | None = None
    gpus: int | None = None
    step_time_s: float | None = None
    step_time_std_s: float | None = None
    tflops_per_gpu: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    mfu: float | None = None
    loss: float | None = None
    steps_measured: int | None = None
    stability: str | None = None
    plugin: str | None = None
    recipe: str | None = None
    job_id: str | None = None
    group: str | None = None
    data_valid: bool | None = None
    comparable: bool | None = None
    cause: str | None = None
    user: str | None = None
    measures: dict[str, Any] = {}
    tags: tuple[str, ...] = ()


def full_name(name: str) -> str | None:
    """The column with this name or alias; None if unknown."""
    return name if name in COLUMNS or MEASURE.fullmatch(name) else SHORT.get(name)


def column(name: str, option: str) -> str:
    """The column with this name or alias. Raises `UsageError` with the closest one."""
    full = full_name(name)
    if full is None:
        raise unknown(name, option)
    return full


def unknown(name: str, option: str) -> UsageError:
    """The error for a name that no column has, with the closest one."""
    near = did_you_mean(name, (*COLUMNS, *SHORT))
    hint = near if near.startswith(" (did") else " (see `llmbx jobs --help` for the columns)"
    return UsageError(f"{option}: no column named '{name}'{hint}")


def kind_of(column: str) -> Kind:
    """The kind of a column, also of one of a measure."""
    match = MEASURE.fullmatch(column)
    if match is None:
        return COLUMNS[column]
    return {"unit": "text", "kind": "text", "steps": "count"}.get(match[2], "number")  # type: ignore[return-value]


def expression(column: str) -> str:
    """The SQL of a column. That of a measure is a member of the JSON text in `measures`."""
    match = MEASURE.fullmatch(column)
    return quoted(column) if match is None else f"json_extract(\"measures\", '$.{match[1]}.{match[2]}')"


def quoted(column: str) -> str:
    """A column name quoted for SQL."""
    return f'"{column}"'


_LISTED = {name: full_name(name) or name for name in Entry.__struct_fields__}


def flatten(members: dict[str, Any]) -> Values:
    """The fields of a result (or of a substitute for one) that are columns; values of the wrong kind become None."""
    values: Values = {}
    _flatten(members, "", values)
    return values


def _flatten(members: dict[str, Any], prefix: str, found: Values) -> None:
    for key, member in members.items():
        if prefix + key == "measures":
            found["measures"] = _measures_text(member)
            continue
        name = prefix + key
        if type(member) is dict:
            _flatten(member, f"{name}.", found)
        elif name in COLUMNS and member is not None:
            found[name] = fit(member, COLUMNS[name])


def _measures_text(member: object) -> str | None:
    """The measures of a result as JSON text for the database; None without any, or if they are damaged."""
    if type(member) is not dict or not member:
        return None
    good = {name: facts for name, facts in member.items() if type(facts) is dict and re.fullmatch(MEASURE_NAME, name)}
    return msgspec.json.encode({name: _numbers(facts) for name, facts in good.items()}).decode() if good else None


def _numbers(known: dict[str, Any]) -> dict[str, Any]:
    """The members of a measure that are of the right kind."""
    kinds = dict.fromkeys(MEASURE_NUMBERS, "number") | {"unit": "text", "kind": "text", "better": "text"}
    return {name: fit(known.get(name), kind) for name, kind in kinds.items()}  # type: ignore[arg-type]


def fit(value: Any, kind: Kind) -> Scalar:
    """`value` if it is of this kind, else None: a damaged file must not store other types in a column."""
    if kind == "text":
        return value if type(value) is str else None
    if kind == "flag":
        return value if type(value) is bool else None
    if isinstance(value, int):
        return int(value) if -LARGEST <= value <= LARGEST else None
    return value if type(value) is float and kind in ("number", "date") else None


def words(tags: tuple[str, ...]) -> str:
    """Tags as one text that contains ` tag ` for each of them."""
    return f" {' '.join(tags)} " if tags else ""


def entry(values: Values, folder: str) -> Entry:
    """The listing entry of the run with these columns."""
    taken: dict[str, Any] = {name: values.get(column) for name, column in _LISTED.items()}
    taken["tags"] = str(taken["tags"] or "").split()
    taken["measures"] = _measures_object(taken["measures"])
    return convert({**taken, "folder": folder}, Entry)


def _measures_object(text: Scalar) -> dict[str, Any]:
    try:
        measures = msgspec.json.decode(str(text or "{}"))
    except NOT_JSON:
        return {}
    return measures if type(measures) is dict else {}


def document(values: Values, folder: str) -> str:
    """The listing entry as a piece of the JSON list that `llmbx jobs` prints."""
    text = msgspec.json.format(msgspec.json.encode(entry(values, folder)), indent=2).decode()
    return "  " + text.replace("\n", "\n  ")
