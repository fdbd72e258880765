"""Made-up logs of three frameworks for one training, which tests put faults into. The lines are those of real logs."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from llmbx.model import ExpectedConfiguration, RunSpec
from llmbx.testing import resolve_spec

Numbers = dict[str, Any]


@dataclasses.dataclass
class Made:
    """One training: the values of its steps, what the framework states, and further lines around the steps.

    `arrivals` are the seconds at which the steps' lines are read, by number; `seen` the GPUs that the first rank saw;
    `configured` the facts that the final configuration states wrongly; `nodes` the answer of nvidia-smi on each node,
    one line per GPU, and `hosts` further facts of it; `lasted` how many seconds the run took; `flops` what the plugin
    computes for a sample; `commas` the value that is printed with a decimal comma;
    `rewrite` changes the lines of the log.
    """

    spec: RunSpec
    first: int
    steps: list[Numbers]
    stated: Numbers
    before: list[str] = dataclasses.field(default_factory=list)
    after: list[str] = dataclasses.field(default_factory=list)
    inside: dict[int, list[str]] = dataclasses.field(default_factory=dict)
    last_line: bool = True
    arrivals: dict[int, float] = dataclasses.field(default_factory=dict)
    seen: list[str] | None = None
    nodes: list[list[str]] = dataclasses.field(default_factory=list)
    exit_code: int = 0
    configured: Numbers = dataclasses.field(default_factory=dict)
    lasted: float = 1e6
    hosts: list[dict[str, str]] = dataclasses.field(default_factory=list)
    flops: float | None = None
    commas: str | None = None
    rewrite: Callable[[list[str]], list[str]] | None = None

    def every(self, **values: Any) -> None:
        """Set values of every step; a function gets the position of the step, from 0."""
        for place, step in enumerate(self.steps):
            step.update({name: value(place) if callable(value) else value for name, value in values.items()})

    def at(self, place: int, **values: Any) -> None:
        """Set values of the step at a position."""
        self.steps[place].update(values)


def made(name: str, time_s: float) -> Made:
    """A clean training in this format, with steps of `time_s` seconds."""
    spec, first = spec_of(name), FIRST[name]
    start = math.log(spec.model.vocab_size)
    steps = [
        {
            "number": first + k,
            "time": time_s * (5.0 if k == 0 else 1 + 0.002 * math.sin(7 * k)),
            "loss": start - 0.02 * k,
            "grad": 3.0 / (k + 1) + 0.5 if name == "bridge" else None,
            "lr": 1e-6 * (k + 1) if name != "maxtext" else None,
            "batch": spec.global_batch_size,
            "consumed": spec.global_batch_size * (k + 1),
            "tokens": spec.tokens_per_step,
            "skipped": 0,
            "nan": 0,
            "scale": 1.0,
            "printed_as": first + k,
            "total": first + spec.steps - 1,
        }
        for k in range(spec.steps)
    ]
    stated = {
        "ranks": spec.gpus,
        "microbatches": spec.gradient_accumulation,
        "layers": spec.model.layers,
        "hidden": spec.model.hidden_size,
        "batch": spec.global_batch_size,
        "micro": spec.micro_batch_size,
        "length": spec.model.sequence_length,
        "vocab": spec.model.vocab_size,
        "dtype": spec.dtype,
        "billions": PARAMETERS[name],
        "backend": "gpu",
    }
    found = Made(spec, first, steps, stated)
    found.arrivals = _arrivals(steps)
    return found


def _arrivals(steps: list[Numbers]) -> dict[int, float]:
    now, found = 1.7e9, {}
    for step in steps:
        now += step["time"]
        found[step["number"]] = now
    return found


REQUESTS: dict[str, dict[str, Any]] = {
    "bridge": {"workload": "llama3.1", "plugin": "nemo", "size": "8b", "gpu_type": "b200", "gpus": 8},
    "nemo2": {"workload": "llama4", "plugin": "nemo", "size": "400b", "gpu_type": "h100", "gpus": 512},
    "maxtext": {
        "workload": "llama2",
        "plugin": "maxtext",
        "size": "70b",
        "gpu_type": "h100",
        "gpus": 64,
        "window": "11-44",
        "settings": {"pgle": "off"},
    },
}
FIRST = {"bridge": 1, "nemo2": 0, "maxtext": 0}
"""The number of the first step that each format prints."""


@functools.cache
def spec_of(name: str) -> RunSpec:
    """The run of a format."""
    return resolve_spec(runtime="pyxis", launcher="slurm", dtype="bf16", **REQUESTS[name])


ASKED: dict[str, Callable[[RunSpec], int]] = {
    "world_size": lambda spec: spec.gpus,
    "global_batch_size": lambda spec: spec.global_batch_size,
    "micro_batch_size": lambda spec: spec.micro_batch_size,
    "microbatches": lambda spec: spec.gradient_accumulation,
    "sequence_length": lambda spec: spec.model.sequence_length,
    "layers": lambda spec: spec.model.layers,
    "hidden_size": lambda spec: spec.model.hidden_size,
    "vocab_size": lambda spec: spec.model.vocab_size,
    "heads": lambda spec: spec.model.heads,
    "query_groups": lambda spec: spec.model.query_groups,
    "head_width": lambda spec: spec.model.hidden_size // spec.model.heads,
    "ffn_hidden_size": lambda spec: spec.model.ffn_hidden_size,
    "experts": lambda spec: spec.model.experts or 1,  # MaxText counts one expert in a dense model
    "experts_per_token": lambda spec: spec.model.experts_per_token or 1,
    "moe_ffn_hidden_size": lambda spec: spec.model.moe_ffn_hidden_size or spec.model.ffn_hidden_size,
    "shared_ffn_hidden_size": lambda spec: spec.model.shared_ffn_hidden_size or 0,
    "mtp_layers": lambda spec: spec.model.mtp_layers or 0,
}
"""What a final configuration states if the framework trains what was asked for, by fact."""

PARAMETERS = {"bridge": 8.03, "nemo2": 400.7, "maxtext": 68.977}


def final(log: Made, expected: ExpectedConfiguration) -> Numbers:
    """The final configuration that the framework writes: upstream's, where it is known."""
    found: Numbers = {}
    for name, (key, *factors) in expected.facts.items():
        found |= {key: ASKED[name](log.spec), **dict.fromkeys(factors, 1)}
    if expected.upstream:
        found = {key: value for key, value in found.items() if key in expected.upstream}
    wrong = {expected.facts[name][0]: value for name, value in log.configured.items()}
    return {**found, **(expected.upstream or {}), **wrong}


def text(log: Made) -> str:
    """The log as its framework prints it."""
    for step in log.steps:
        step["read"] = log.arrivals.get(step["printed_as"])
    lines = {"megatron-bridge": _bridge, "nemo2": _nemo2}.get(log.spec.driver, _maxtext)(log)
    return "\n".join(log.rewrite(lines) if log.rewrite else lines) + "\n"


_KEYS = {
    "time": r"(?:elapsed time per iteration \(ms\)|train_step_timing in s|seconds): ",
    "loss": r"(?:lm loss|reduced_train_loss|, loss): ",
    "grad": r"grad[ _]norm: ",
}


def _body(log: Made, line: Callable[[Numbers], str]) -> list[str]:
    found = []
    for place, step in enumerate(log.steps):
        found += [_with_comma(line(step), log.commas), *log.inside.get(place, [])]
    return found


def _with_comma(line: str, field: str | None) -> str:
    """The line as a program prints it in a locale with a decimal comma."""
    if field == "thousands":
        return re.sub(rf"({_KEYS['time']})(\d+)(\d\d\d)\.", r"\1\2,\3.", line)
    return re.sub(rf"({_KEYS[field]}\d+)\.", r"\1,", line) if field else line


def _stamp(step: Numbers, form: str, usual: str) -> str:
    """The time of the step's line (`at`, in epoch seconds), else when it is read, else the same for all lines."""
    at = step.get("at", step["read"])
    return usual if at is None else datetime.fromtimestamp(at, UTC).strftime(form)


def _bridge(log: Made) -> list[str]:
    stated = log.stated
    head = [
        "=" * 70, "Configuration Summary (Non-Default Values vs Megatron Core)", "=" * 70, "",
        "[optimizer] Non-default values (vs Mcore OptimizerConfig):", "  bf16: True  (Mcore default: False)",
        "[model] Non-default values (vs Mcore TransformerConfig):",
        f"  {stated['dtype']}: True  (Mcore default: False)" if stated["dtype"] != "fp32"
        else "  autocast_dtype: torch.float32  (Mcore default: None)",
        f"  hidden_size: {stated['hidden']}  (Mcore default: 0)",
        f"  num_layers: {stated['layers']}  (Mcore default: 0)",
        "[train]:", f"  global_batch_size: {stated['batch']}", f"  micro_batch_size: {stated['micro']}", "=" * 70,
        "[after megatron is initialized] datetime: 2026-03-27 23:06:40 ", *log.before,
        "Starting training loop at iteration 0",
        f"Total number of parameters in billions: {stated['billions']:.2f}",
    ]  # fmt: skip
    tail = ["[after training is done] datetime: 2026-03-27 23:50:17 "] if log.last_line else []
    return [*head, *_body(log, _bridge_line), *tail, *log.after]


def _bridge_line(step: Numbers) -> str:
    loss = f" lm loss: {step['loss']:.6E} |" if step["loss"] is not None else ""
    grad = f" grad norm: {step['grad']:.3f} |" if step["grad"] is not None else ""
    rate = f" learning rate: {step['lr']:.6E} |" if step["lr"] is not None else ""
    batch = f" global batch size: {step['batch']:5d} |" if step["batch"] is not None else ""
    consumed = f" consumed samples: {step['consumed']:12d} |" if step["consumed"] is not None else ""
    stamp = _stamp(step, "%Y-%m-%d %H:%M:%S", "2023-11-14 23:08:06")
    return (
        f" [{stamp}] iteration {step['number']:8d}/{step['total']:8d} |{consumed}"
        f" elapsed time per iteration (ms): {_milliseconds(step['time'])} |"
        f"{rate}{batch}{loss} loss scale: {step['scale']:.1f} |{grad} "
        f"number of skipped iterations: {step['skipped']:3d} | number of nan iterations: {step['nan']:3d} |"
    )


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f}" if seconds > 1e-4 else f"{1000 * seconds:.6f}"


def _nemo2(log: Made) -> list[str]:
    stated = log.stated
    head = [
        "[NeMo I 2025-05-14 09:00:00 nemo_logging:393] Experiments will be logged at nemo_experiments/default",
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/1",
        f"All distributed processes registered. Starting with {stated['ranks']} processes",
        "[NeMo I 2025-05-14 09:00:00 num_microbatches_calculator:228] setting number of microbatches to constant "
        f"{stated['microbatches']}",
        *log.before,
    ]
    tail = [f"`Trainer.fit` stopped: `max_steps={log.spec.steps}` reached."] if log.last_line else []
    return [*head, *_body(log, _nemo2_line), *tail, *log.after]


def _nemo2_line(step: Numbers) -> str:
    fields = [
        f"Training epoch 0, iteration {step['number']}/{step['total']}",
        f"lr: {step['lr']:.4g}" if step["lr"] is not None else None,
        f"global_batch_size: {step['batch']}" if step["batch"] is not None else None,
        f"global_step: {step['number']}",
        f"reduced_train_loss: {step['loss']:.4g}" if step["loss"] is not None else None,
        f"train_step_timing in s: {step['time']:.4g}",
        f"consumed_samples: {step['consumed']}" if step["number"] and step["consumed"] is not None else None,
        f"grad_norm: {step['grad']:.4g}" if step["grad"] is not None else None,
    ]
    return " | ".join(field for field in fields if field is not None)


def absl(second: int = 0) -> str:
    """The beginning of a line that is printed some seconds after the first."""
    return f"I1114 23:{20 + second // 60:02d}:{second % 60:02d}.853725 140349491260288 metric_logger.py:265] "


ABSL = absl()


def _maxtext(log: Made) -> list[str]:
    stated = log.stated
    dtypes = {"bf16": "bfloat16", "fp32": "float32", "fp8": "bfloat16"}
    params = {
        "dtype": dtypes[stated["dtype"]], "emb_dim": stated["hidden"],
        "global_batch_size_to_train_on": stated["batch"], "max_target_length": stated["length"],
        "num_decoder_layers": stated["layers"], "quantization": "fp8" if stated["dtype"] == "fp8" else "",
        "vocab_size": stated["vocab"], "gradient_accumulation_steps": stated["microbatches"],
    }  # fmt: skip
    head = [
        *(f"{ABSL}Config param {name}: {value}" for name, value in params.items()),
        f"{ABSL}System Information: Jax Backend: {stated['backend']}",
        f"{ABSL}Num_devices: {stated['ranks']}, shape (1, 1, 1, 64, 1)",
        f"{ABSL}number parameters: {stated['billions']:.3f} billion",
        *log.before,
    ]
    lines = iter(range(1, 10_000))
    return [*head, *_body(log, lambda step: _maxtext_line(step, next(lines))), *log.after]


def _maxtext_line(step: Numbers, second: int) -> str:
    loss = f", loss: {step['loss']:.3f}" if step["loss"] is not None else ""
    rate = f", lr: {step['lr']}" if step["lr"] is not None else ""
    grad = f", grad_norm: {step['grad']}" if step["grad"] is not None else ""
    usual = absl(second)
    prefix = usual.replace(usual[1:21], _stamp(step, "%m%d %H:%M:%S.%f", usual[1:21]))
    return (
        f"{prefix}completed step: {step['number']}, seconds: {step['time']:.3f}, TFLOP/s/device: 400.000, "
        f"Tokens/s/device: 1000.000, total_weights: {step['tokens']}{loss}{rate}{grad}"
    )
