"""Predict step time, throughput and memory, or the best parallelism."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from llmbx.api import GpuType
from llmbx.api.verbs import (
    WORKLOAD_ARGUMENT,
    Request,
    format_option,
    load_workspace,
    parse_pairs,
    print_json,
    print_note,
    print_rows,
)

if TYPE_CHECKING:
    from llmbx.api.verbs import Workspace

    from ..planner import Choice, Plan
    from ..prediction import Estimate, Prediction, Predictor
    from ..target import Target

COLUMNS = ("figure", "value", "low", "high", "unit", "note")
PLANS = ("rank", "tp", "pp", "cp", "ep", "etp", "vp", "mbs", "fsdp", "recompute", "offload_layers", "step_time_s",
         "low_s", "high_s", "tokens_per_s_per_gpu", "memory_gb", "published")  # fmt: skip
PLAN_TABLE = ("rank", "layout", "step_time_s", "low_s", "high_s", "tokens_per_s_per_gpu", "memory_gb", "published")


@click.command("predict")
@click.argument("names", nargs=-1, required=True, metavar="[PLUGIN] WORKLOAD [SIZE]", type=WORKLOAD_ARGUMENT)
@click.option("-s", "--size", help="Model size of a workload of the catalog.")
@click.option("--gpu-type", metavar="TYPE",
              help="GPU type: h100, gb200 …  [default: this machine's, else the catalog's, if only one]")  # fmt: skip
@click.option(
    "--gpus",
    "--scale",
    "gpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of GPUs.  [default: as a run would use here, else the catalog's, if only one]",
)
@click.option("--dtype", help="Data type: bf16, fp8, mxfp8 or nvfp4.  [default: the workload's]")
@click.option("--recipe", help="Recipe of the catalog.  [default: the newest with these GPUs]")
@click.option("--release", metavar="YY.MM", help="Release of the framework, for example 26.04.  [default: the newest]")
@click.option("--stack", metavar="STACK",
              help="Training stack: megatron-bridge, nemo2, megatron-lm, maxtext, torchtitan, fsdp, automodel, other …"
              "  [default: the recipe's]")  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Change the configuration (tp, pp, cp, ep, etp, vp, mbs, gbs, seq, fsdp, recompute) or the model "
              "(layers, hidden, ffn, heads, groups, vocab, experts …).")  # fmt: skip
@click.option("--best", is_flag=True, help="Search the parallelism with the shortest step that fits the memory.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, metavar="N",
              help="With --best: configurations to list.")  # fmt: skip
@format_option()
def command(
    names: tuple[str, ...], settings: tuple[str, ...], best: bool, top: int, format_: str, **options: Any
) -> None:
    """Predict step time, throughput and memory of WORKLOAD on GPUs that need not be here.

    WORKLOAD is one of the catalog, or a model of `llmbx atlas`. What is not set is what `llmbx run` would use on this
    machine or by the cluster profile, else comes from the catalog's recipe or the nearest published configuration. The
    prediction is a roofline by kind of work, calibrated on the published figures of `llmbx atlas` and on your own
    (`llmbx atlas add`); docs/prediction.md has its equations, its measured error and its limits. Every value has a 90 %
    interval, which is wider the further the configuration is from the published ones; a value that nothing published is
    near to is unknown (null), with the reason. On GPUs without published figures only the memory is known.

    --best tries all valid degrees of parallelism, micro-batch sizes and recomputation with the same global batch, and
    lists the fastest within the memory of the GPU, with the rank of the published choice.

    \b
    Examples:
      llmbx predict llama3.1 --size 405b --gpu-type gb200 --gpus 512
      llmbx predict deepseek-v3 --gpu-type gb300 --gpus 256 --dtype mxfp8 --set pp=2 --format json
      llmbx predict llama3.1 --size 70b --gpu-type h100 --gpus 64 --stack torchtitan
      llmbx predict llama3.1 --size 70b --gpu-type h100 --gpus 512 --best
    """
    from ..atlas import own, table
    from ..cost.rates import known
    from ..prediction import Predictor
    from ..question import Question
    from ..target import target

    workspace = load_workspace()
    rows = (*table.shipped(), *own.rows(workspace.install.path))
    options = {name: value if value is not None else _of_environment(name) for name, value in options.items()}
    question = Question(
        names=names,
        size=options["size"],
        dtype=_lower(options["dtype"]),
        gpu_type=_lower(options["gpu_type"]),
        gpus=options["gpus"],
        release=options["release"],
        recipe=options["recipe"],
        stack=_lower(options["stack"]),
        settings=parse_pairs("--set", settings),
    )
    changed = GpuType.extend(workspace.config.gpus)
    goal = target(question, rows, workspace)
    memory = {name: changed[name].memory_gb for name in workspace.config.gpus}
    if goal.case.gpu_type not in known():
        memory[goal.case.gpu_type] = GpuType.named(goal.case.gpu_type, changed).memory_gb
    predictor = Predictor(rows, memory)
    if best:
        _print_plan(_plan(goal, predictor, rows, workspace, top), format_)
    else:
        _print(predictor.predict(goal.case, goal.base), format_)
        if goal.published and format_ != "json":
            print_note(f"published: {goal.published}")


def _of_environment(name: str) -> Any:
    """The value of the recipes' variable for this option (`GPU_TYPE`, `JOB_TOTAL_GPUS` …), if there is one."""
    return Request.from_environ(os.environ).get(name, (None, ""))[0]


def _lower(text: str | None) -> str | None:
    return text.lower() if text else None


def _plan(target: Target, predictor: Predictor, rows: Any, workspace: Workspace, top: int) -> Plan:
    from ..planner import plan

    return plan(target, predictor, rows, workspace, top)


def _print(prediction: Prediction, format_: str) -> None:
    if format_ == "json":
        print_json(prediction)
        return
    print_rows(_figures(prediction), COLUMNS, format_)
    for line in _lines(prediction):
        print_note(line)


def _figures(prediction: Prediction) -> list[dict[str, Any]]:
    rows = [
        _row("step time", prediction.step_time_s, "s"),
        _row("throughput", prediction.tokens_per_s_per_gpu, "tokens/s per GPU"),
        _row("model FLOPs", prediction.tflops_per_gpu, f"TFLOP/s per GPU, {prediction.flops_convention}"),
        _row("peak memory", prediction.memory_gb, "GB"),
    ]
    if prediction.terms is None:
        return rows
    terms = prediction.terms
    named = {
        "compute": terms.compute_s, **_indented(terms.compute),
        "exposed communication": terms.exposed_communication_s, **_indented(terms.exposed_communication),
        "bubble": terms.bubble_s, "optimizer": terms.optimizer_s, "host": terms.host_s, "waiting": terms.waiting_s,
    }  # fmt: skip
    total = prediction.step_time_s.value or 1.0
    return rows + [{"figure": name, "value": value, "low": None, "high": None, "unit": "s",
                    "note": f"{100 * value / total:.1f} % of the step"} for name, value in named.items()]  # fmt: skip


def _indented(parts: dict[str, float]) -> dict[str, float]:
    return {f"  {name}": value for name, value in parts.items()}


def _row(name: str, value: Estimate, unit: str) -> dict[str, Any]:
    note = "unknown" if value.value is None else f"{100 * value.level:.0f} % interval"
    return {"figure": name, "value": value.value, "low": value.low, "high": value.high, "unit": unit, "note": note}


def _lines(prediction: Prediction) -> list[str]:
    shown = " ".join(
        f"{key}={value}" for key, value in prediction.configuration.items() if value not in (1, False, "", "none")
    )
    basis, near = prediction.calibrated_on, prediction.nearest
    lines = [f"unknown: {prediction.unknown_because}"] if prediction.unknown_because else []
    lines += [
        f"{prediction.model}: {shown}",
        f"configuration: {prediction.configuration_from}",
        f"calibrated on {basis.words()}",
    ]
    if near is not None:
        what = ", ".join(near.differs_in) or "nothing"
        time = f" {near.step_time_s:.4g} s," if near.step_time_s else ""
        lines.append(f"nearest: {near.model} on {near.gpus} x {near.gpu_type} {near.dtype},{time} {near.source} "
                     f"{near.release}; distance {near.distance:.2f}, differs in {what}")  # fmt: skip
    return [*lines, *(f"note: {note}" for note in prediction.notes)]


def _print_plan(plan: Plan, format_: str) -> None:
    if format_ == "json":
        print_json(plan)
        return
    rows = [{name: getattr(choice, name) for name in PLANS} | {"layout": _layout(choice)} for choice in plan.choices]
    columns = PLANS if format_ == "csv" else PLAN_TABLE
    print_rows(rows, columns, format_, empty="no configuration fits the memory", optional=("published",))
    for line in plan.lines():
        print_note(line)


def _layout(choice: Choice) -> str:
    """The degrees of parallelism, and what saves memory."""
    from ..atlas.listing import degrees

    again = f" {choice.recompute} recompute" if choice.recompute != "none" else ""
    return degrees(choice) + (f" OL{choice.offload_layers}" if choice.offload_layers else "") + again
