"""Show the resolved configuration of a run and the origin of each value."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any

import click

from llmbx.api import Expected, GpuType, RunSpec, UsageError, Workload
from llmbx.api.verbs import (
    Request,
    RunCommand,
    Workspace,
    format_option,
    load_workspace,
    print_json,
    print_rows,
    run_options,
)

from .settings_table import Row, lines

TARGET = (
    "plugin workload size dtype gpu_type gpus layout_of scaled_from nodes gpus_per_node recipe"
    " driver"
)
LAYOUT = (
    "global_batch_size micro_batch_size gradient_accumulation parallelism cuda_graphs"
    " recompute_layers offload_layers steps window"
)
PLACEMENT = "environment runtime launcher walltime_minutes settings env plugin_settings"
"""Members of the specification that are shown, in their order."""

FIRST = (
    "size dtype gpu_type gpus layout_of scaled_from nodes recipe driver image environment"
    " sequence_length layers hidden_size"
)
SECOND = (
    "micro_batch_size global_batch_size gradient_accumulation cuda_graphs recompute_layers"
    " offload_layers steps window"
)
"""Rows of the table before and after the letters of the parallelism."""

TERMS = ("part", "kind", "layers", "full", "causal", "share", "parameters", "active", "source")


@click.command("show", cls=RunCommand)
@click.option(
    "--flops",
    "terms",
    is_flag=True,
    help="Print what each part of the model costs, and nothing else.",
)
@format_option()
@run_options
def command(request: Request | None, terms: bool, format_: str) -> None:
    """Show the resolved configuration of a run and the origin of each value.

    Nothing is started or downloaded. Takes the same options as `llmbx run`. Values that are not set
    by an option come from the environment, the cluster profile or the catalog, in that order. The
    exit code is 2 if the catalog has no such configuration. Problems of this machine are named, and
    do not change the exit code.

    \b
    Examples:
      llmbx show grok1
      llmbx show nemo llama3.1 --size 405b --gpu-type h100 --gpus 1024
      llmbx show llama4 --dtype fp8 --gpu-type h100 --format json
    """
    if request is None:
        raise click.UsageError("no workload specified: `llmbx list` shows all workloads")
    workspace = load_workspace()
    spec = workspace.resolve(request)
    if terms:
        print_rows(_terms(spec, workspace), TERMS, format_)
        sample = f"one sample of {spec.model.sequence_length} tokens"
        note = f"FLOPs of {sample}, forward and backward; share of the column full"
        click.echo(note, err=True)
        return
    facts = describe(spec, workspace)
    if format_ == "json":
        print_json(facts)
    else:
        print_settings(rows(spec, facts), format_)
        for finding in facts["findings"]:
            word = "note" if finding.warning else "problem"
            click.echo(f"{word}: {finding.problem}; {finding.fix}", err=True)
    if not all(finding.warning for finding in spec.findings):
        sys.exit(UsageError.exit_code)


def print_settings(settings: Sequence[Row], format_: str) -> None:
    """Print settings with their origins as CSV, or a line each."""
    if format_ == "csv":
        print_rows(settings, ("setting", "value", "origin"), format_)
    else:
        room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        click.echo("\n".join(lines(settings, room)))


def _terms(spec: RunSpec, workspace: Workspace) -> list[Row]:
    """What each part of the model costs, and their sum; of a formula without terms, its parts.

    Raises `UsageError` if the framework has no formula.
    """
    flops = workspace.plugins.framework(spec.plugin).compute_flops(spec)
    if flops is None:
        raise UsageError(f"{spec.plugin} has no formula for {spec.workload}")
    length = spec.model.sequence_length
    rows: list[Row] = [
        {
            "part": term.name,
            "kind": term.kind,
            "layers": term.layers,
            "full": term.full,
            "causal": term.causal,
            "share": term.full / flops.full,
            "parameters": term.parameters,
            "active": term.active_parameters,
            "source": term.source,
        }
        for term in flops.terms
    ] or [
        {"part": name, "full": value * length, "share": value * length / flops.full}
        for name, value in flops.parts.items()
    ]
    total: dict[str, Any] = {
        "part": "sum",
        "full": flops.full,
        "causal": flops.causal,
        "share": 1.0,
    }
    if flops.terms:
        total["parameters"] = sum(term.parameters for term in flops.terms)
        total["active"] = sum(term.active_parameters for term in flops.terms)
    rows.append({**total, "source": flops.formula})
    return [{name: row.get(name) for name in TERMS} for row in rows]


def describe(spec: RunSpec, workspace: Workspace) -> dict[str, Any]:
    """The resolved run as the JSON object printed by `show --format json`."""
    findings = workspace.findings(spec)
    prediction, too_much = workspace.expected(spec, findings)
    return {
        **_members(spec, TARGET),
        "sequence_length": spec.model.sequence_length,
        "layers": spec.model.layers,
        "hidden_size": spec.model.hidden_size,
        "model": spec.model,
        **_members(spec, LAYOUT),
        **_flops_and_peak(spec, workspace),
        "image": spec.image.reference if spec.image else None,
        **_members(spec, PLACEMENT),
        **_published(spec, workspace.plugins.workload(spec.workload, spec.plugin)),
        "expected": prediction,
        "corrected": spec.corrected,
        "findings": [*findings, *too_much],
        "origins": spec.origins,
    }


def _members(spec: RunSpec, names: str) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in names.split()}


def _flops_and_peak(spec: RunSpec, workspace: Workspace) -> dict[str, Any]:
    flops, peak = workspace.plugins.framework(spec.plugin).compute_flops(spec), spec.peak
    return {
        "flops_per_sample": {
            "full": flops.full if flops else None,
            "causal": flops.causal if flops else None,
            "formula": flops.formula if flops else None,
            "convention": spec.flops_convention,
        },
        "peak_tflops": {
            "value": peak.tflops if peak else None,
            "name": peak.name if peak else None,
            "source": peak.source if peak else None,
        },
    }


def _published(spec: RunSpec, workload: Workload) -> dict[str, Any]:
    return {
        "reference": spec.exact_row(workload),
        "no_reference_because": spec.why_no_figure(workload),
    }


def rows(spec: RunSpec, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The resolved run as rows of setting, value and origin for the table."""
    expected, flops, figure = facts["expected"], facts["flops_per_sample"], facts["reference"]
    letters = spec.parallelism.__struct_fields__
    shown: dict[str, Any] = {
        "workload": f"{spec.plugin} {spec.workload}",
        **{name: facts[name] for name in FIRST.split()},
        **{name: getattr(spec.parallelism, name) for name in letters},
        **{name: facts[name] for name in SECOND.split()},
        "flops_per_sample": flops["full"] and _both(flops),
        "peak_tflops": f"{spec.peak.tflops:g}" if spec.peak else "unknown",
        "published": _published_text(facts),
        **_expected(expected, spec),
        **{k: facts[k] for k in ("runtime", "launcher", "walltime_minutes")},
        **{f"settings.{key}": value for key, value in spec.settings.items()},
        **{f"env.{key}": value for key, value in spec.env.items()},
        **_plugin_settings(spec),
    }
    disputed = f"; disputed: {figure.disputed}" if figure and figure.disputed else ""
    prediction = expected.unknown_because or expected.source
    origins = {
        **spec.origins,
        "flops_per_sample": f"{flops['formula']}; MFU by {flops['convention']}",
        "peak_tflops": _peak_origin(spec),
        "published": facts["no_reference_because"] or f"{figure.source}{disputed}",
        "expected": prediction,
        "expected_memory": prediction,
    }
    return [
        {"setting": key, "value": _text(value), "origin": origins.get(key, "")}
        for key, value in shown.items()
        if value is not None
    ]


def _text(value: Any) -> str:
    """A value as a table has it: four significant digits of a float."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _both(flops: dict[str, Any]) -> str:
    return f"{flops['full']:.4g} full, {flops['causal']:.4g} causal"


def _plugin_settings(spec: RunSpec) -> dict[str, Any]:
    """`plugin.field`, or `plugin.field.key` of a table, -> value."""
    flat: dict[str, Any] = {}
    for plugin, settings in spec.plugin_settings.items():
        for field, value in settings.items():
            table = value if isinstance(value, dict) else {"": value}
            flat |= {f"{plugin}.{field}.{key}".rstrip("."): entry for key, entry in table.items()}
    return flat


def _peak_origin(spec: RunSpec) -> str:
    if spec.peak is None:
        return GpuType.how_to_set_peak(spec.gpu_type, spec.dtype)
    return f"{spec.peak.name}; {spec.peak.source}"


def _expected(expected: Expected, spec: RunSpec) -> dict[str, str | None]:
    """Step time and memory that are expected; empty for a run for which nothing is predicted."""
    time, memory = expected.step_time_s, expected.memory_gb
    if time.value is None and memory.value is None and (spec.mini or spec.gpu_type == "cpu"):
        return {}
    return {
        "expected": "unknown" if time.value is None else f"{time.text()} s per step",
        "expected_memory": None if memory.value is None else f"{memory.text(0)} GB per GPU",
    }


def _published_text(facts: dict[str, Any]) -> str:
    row = facts["reference"]
    if facts["no_reference_because"]:
        return "none: use a run of your own (--baseline)"
    tflops = f", {row.tflops_per_gpu:g} TFLOP/s per GPU" if row.tflops_per_gpu else ""
    mfu = f", MFU {100 * row.mfu:.4g} %" if row.mfu is not None else ""
    peak = f" of {row.peak_tflops:g}" if mfu and row.peak_tflops else ""
    return f"{row.step_time_s:g} s per step{tflops}{mfu}{peak}"
