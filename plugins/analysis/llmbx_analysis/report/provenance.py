"""The sections on configuration (with the origin of each value), environment and files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from llmbx.api import (
    Column,
    HandlingRequest,
    RunSpec,
    Scalar,
    Section,
    Table,
    is_number,
)
from llmbx.api.verbs import RunRecord as Record
from llmbx.entry.secrets import blank, recorded

from ..formatting import started
from ..formatting import text as format_value
from ..nodes import host_names, shared_facts
from .cells import Cell, RunData

UNITS = {
    "gpus": "GPUs", "gpus_per_node": "GPUs", "global_batch_size": "samples", "micro_batch_size": "samples",
    "gradient_accumulation": "micro-batches", "sequence_length": "tokens", "steps": "steps", "layers": "layers",
    "walltime_minutes": "min", "recompute_layers": "layers", "offload_layers": "layers",
    "vocab_size": "tokens", "hidden_size": "elements", "ffn_hidden_size": "elements", "heads": "heads",
    "query_groups": "groups", "experts": "experts", "experts_per_token": "experts", "tp": "ranks", "pp": "stages",
    "cp": "ranks", "ep": "ranks", "etp": "ranks", "dp": "replicas", "vp": "chunks", "moe_ffn_hidden_size": "elements",
    "shared_ffn_hidden_size": "elements", "memory_gib": "GiB", "cores": "cores", "usable_cores": "cores",
    "gpu_power_limit_w": "W", "gpu_clock_sm_max_mhz": "MHz", "gpu_clock_memory_max_mhz": "MHz",
    "gpu_clock_application_mhz": "MHz", "gpus_seen": "GPUs",
}  # fmt: skip
"""Units of values that are stored without one, by name."""

HIDDEN = {
    "origins", "findings", "install", "plugin", "folder", "checkpoint_facts", "peak", "secrets", "image", "corrected",
    "forced", "tags", "profilers", "model", "parallelism", "accept_image_change", "mini", "proxy",
}  # fmt: skip
"""Fields of a specification that are shown elsewhere or not at all."""


def configuration(cell: Cell) -> Section:
    """The configuration of the cell, with the origin of each value."""
    spec = cell.spec
    columns = (Column(title="setting"), Column(title="value"), Column(title="origin"))
    rows = tuple((name, _with_unit(name, value), _origin(spec, name)) for name, value in settings(spec).items())
    corrected = tuple(f"corrected: {line}" for line in spec.corrected)
    forced = (f"rules overridden with --force: {', '.join(spec.forced)}",) if spec.forced else ()
    warnings = tuple(f"{finding.problem}; {finding.fix}" for finding in spec.findings)
    return Section(
        name="configuration",
        title="Configuration",
        text=corrected,
        warnings=(*forced, *warnings),
        tables=(Table(title="settings and their origins", columns=columns, rows=rows),),
    )


def environment(cell: Cell) -> Section:
    """The environment of the newest run of a cell: image, versions, machines, variables, commands."""
    record = cell.newest.record
    tables = [_table("run", _run_facts(cell.newest)), _table("image", _image_facts(record))]
    if record.versions:
        tables.append(_table("versions", record.versions))
    if cell.newest.nodes:
        tables.append(_table("nodes", _node_facts(cell.newest)))
    tables.append(_table("submission host", record.host))
    if record.environment:
        tables.append(
            _table(
                "environment variables (secrets redacted)",
                recorded(record.environment, tuple(record.spec.env)),
                folded=True,
            )
        )
    if record.commands:
        argv = {role: shlex.join(formatting) for role, formatting in record.commands.items()}
        tables.append(_table("command of one rank, by phase", argv, folded=True))
    return Section(name="environment", title="Environment", tables=tuple(tables))


def settings(spec: RunSpec) -> dict[str, Scalar]:
    """The specification as plain values by their option names (`tp`, `settings.lr`), without unset values."""
    plain: dict[str, Any] = msgspec.to_builtins(spec)
    shown = {"workload": f"{spec.plugin} {spec.workload}"}
    shown |= {name: plain[name] for name in ("size", "dtype", "gpu_type", "gpus")}
    shown |= {"nodes": f"{spec.nodes} nodes" if spec.nodes > 1 else "1 node"}
    shown |= plain["parallelism"] | plain["model"]
    ordered = sorted(plain, key=lambda name: name in HandlingRequest.__struct_fields__)
    shown |= {name: plain[name] for name in ordered if name not in HIDDEN and name not in shown}
    if spec.peak is not None:
        shown["peak"] = f"{spec.peak.tflops:g} TFLOP/s per GPU ({spec.peak.name}; {spec.peak.source})"
    if spec.tags:
        shown["tags"] = ", ".join(spec.tags)
    return {name: value for name, value in _flatten(shown).items() if value not in (None, "")}


def versions_and_machine(record: Record) -> dict[str, Scalar]:
    """The image, versions, driver and machine of a run."""
    image = record.image
    facts: dict[str, Scalar] = {"image": (image.digest or image.reference) if image else None}
    facts |= {f"version of {name}": version for name, version in record.versions.items()}
    return facts | {name: str(record.host[name]) for name in ("driver", "cpu", "hostname") if name in record.host}


def _flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Scalar]:
    members: dict[str, Scalar] = {}
    for key, member in value.items():
        name = f"{prefix}{key}"
        if isinstance(member, Mapping):
            members |= _flatten(member, f"{name}.")
        else:
            members[name] = ", ".join(map(str, member)) or None if isinstance(member, list | tuple) else member
    return members


def _with_unit(name: str, value: Scalar) -> str:
    last = name.rpartition(".")[2]
    unit = UNITS.get(last) or ("s" if last.endswith("_s") else None)
    is_number = value is not None and not isinstance(value, bool | str)
    if not unit or not is_number:
        return _plain(value)
    return f"{_plain(value)} {_singular(unit) if value == 1 else unit}"


def _singular(unit: str) -> str:
    """The singular of a unit: `rank`, `micro-batch`, `GPU`. Abbreviations such as `s` and `GiB` do not change."""
    return unit if len(unit) < 3 else unit.removesuffix("es") if unit.endswith("ches") else unit.removesuffix("s")


def _plain(value: Scalar) -> str:
    """Format a setting. Numbers are not rounded."""
    return str(value) if is_number(value) else format_value(value)


def _origin(spec: RunSpec, name: str) -> str:
    return spec.origins.get(name) or ("catalog" if name.split(".")[0] in ("architecture", *_MODEL) else "")


_MODEL = ("layers", "hidden_size", "ffn_hidden_size", "heads", "query_groups", "vocab_size", "sequence_length",
          "experts", "experts_per_token", "moe_ffn_hidden_size", "shared_ffn_hidden_size", "moe_layer_every",
          "driver", "flops_convention")  # fmt: skip


def _run_facts(run: RunData) -> dict[str, Scalar]:
    record, result = run.record, run.result
    return {
        "run": record.run_id,
        "started": started(record.created),
        "command": blank(f"llmbx {shlex.join(record.command)}"),
        "llmbx": record.llmbx_version,
        "runtime": record.spec.runtime,
        "launcher": record.spec.launcher,
        "job": record.job.job_id if record.job else None,
        "attempt": f"{result.attempt + 1}",
        "exit code": None if result.exit_code is None else str(result.exit_code),
        "folder": run.run.folder,
    }


def _image_facts(record: Record) -> dict[str, Scalar]:
    if record.image is None:
        return {"image": None}
    image = record.image
    return {"kind": image.kind, "reference": image.reference, "digest": image.digest, "path": image.path}


def _node_facts(run: RunData) -> dict[str, Scalar]:
    names = host_names(run.nodes)
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return {"names": shown or None, **shared_facts(run.nodes)}


def _table(title: str, facts: Mapping[str, Any], folded: bool = False) -> Table:
    rows = tuple((name.replace("_", " "), _fact(name, value)) for name, value in _flatten(facts).items())
    if folded:
        rows = tuple((name, _fact(name, value)) for name, value in _flatten(facts).items())
    return Table(title=title, columns=(Column(title="name"), Column(title="value")), rows=rows, folded=folded)


def _fact(name: str, value: Scalar) -> str:
    return _with_unit(name, value)


def files(runs: Sequence[RunData]) -> Section:
    """The folders of the runs."""
    rows = tuple((s.record.run_id, s.run.folder) for s in runs)
    columns = (Column(title="run"), Column(title="folder"))
    return Section(name="files", title="Files", tables=(Table(title="folders", columns=columns, rows=rows),))
