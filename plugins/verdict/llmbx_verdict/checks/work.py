"""Was it the job that was asked for? Batch, tokens, steps, ranks, model and dtype, as the log states them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from llmbx.api import (
    Answer,
    Check,
    Event,
    Evidence,
    ModelShape,
    NotPossible,
    RunSpec,
    Step,
)

from .common import MOST, NO_SPEC

FACT = "fact"
"""Kind of the events with which a grammar reports values that the log states."""

FALLBACK = "config_fallback"
"""Kind of the event that reports that the framework did not find the configuration asked for and took another one."""

VOCABULARY = 0.05
"""Frameworks pad the vocabulary, to a multiple of a few hundred."""

ROUNDED = 0.05
"""Relative tolerance of a number of parameters, besides the rounding of the log."""

SAME_WORK = 0.05
"""Relative difference of the tokens of two steps that padding explains."""

WORK = ("global_batch_size", "consumed_samples", "tokens")
"""Fields of a step that show how much it computed."""

SHAPE = {
    "heads": "attention heads",
    "query_groups": "heads of keys and values",
    "head_width": "elements per head",
    "ffn_hidden_size": "units in a feed-forward layer",
    "experts": "experts per layer",
    "experts_per_token": "experts per token",
    "moe_ffn_hidden_size": "units in an expert",
    "shared_ffn_hidden_size": "units in the shared expert",
    "latent_size": "elements of a token for the experts",
    "mtp_layers": "layers for multi-token prediction",
    "kv_rank": "elements of compressed keys and values",
    "q_rank": "elements of compressed queries",
    "key_width": "elements of a head's keys",
    "rope_width": "elements of the keys with positions",
    "value_width": "elements of a head's values",
    "ssm_heads": "heads of a Mamba layer",
    "ssm_head_width": "elements per head of a Mamba layer",
    "ssm_state": "states of a Mamba layer",
}
"""Fields of `ModelShape` that decide the FLOPs of a layer, with what they count. Layers, hidden size, sequence and
vocabulary have checks of their own."""

FAMILIES = ("fp32", "bf16", "fp16", "fp8", "nvfp4")
"""Data types by which dtypes are compared: fp8_cs and fp8_mx are both fp8."""


def batch(evidence: Evidence) -> Answer:
    """A step has another number of samples than asked for."""
    return _every_step(evidence, "global_batch_size", lambda spec: spec.global_batch_size, "samples")


def missing(evidence: Evidence) -> Answer:
    """Values of a step's work that the format always prints are not there."""
    fields = [field for field in WORK if evidence.printed(field)]
    if not fields:
        return NotPossible(reason="the format need not print the work of a step")
    for field in fields:
        without = sum(1 for step in evidence.steps if getattr(step, field) is None)
        if without > (1 - MOST) * len(evidence.steps):
            name = field.replace("_", " ")
            return f"{without} of {len(evidence.steps)} steps have no {name}, which this format always prints"
    return None


def tokens(evidence: Evidence) -> Answer:
    """A step has another number of tokens than asked for."""
    return _every_step(evidence, "tokens", lambda spec: spec.tokens_per_step, "tokens")


def consumed(evidence: Evidence) -> Answer:
    """The consumed samples do not grow by one batch a step."""
    counted = _counted(evidence)
    if len(counted) < 2:
        return NotPossible(reason="fewer than two steps have the consumed samples")
    cut = set(miscounted(evidence))
    for before, after in itertools.pairwise(step for step in counted if step.number not in cut):
        size = evidence.spec.global_batch_size if evidence.spec else after.global_batch_size
        if size is None:
            return NotPossible(reason="the size of the batch is not known")
        grown = (after.consumed_samples or 0) - (before.consumed_samples or 0)
        expected = size * (after.number - before.number)
        if grown != expected:
            span = f"from step {before.number} to step {after.number}"
            return f"the consumed samples grow by {grown} {span}, not by {expected}"
    return None


def miscounted(evidence: Evidence) -> list[int]:
    """The steps whose consumed samples fit neither neighbour, while these fit each other: their line was cut."""
    numbers = []
    for before, step, after in zip(counted := _counted(evidence), counted[1:], counted[2:], strict=False):
        first, own, last = (neighbour.consumed_samples or 0 for neighbour in (before, step, after))
        expected = (last - first) * (step.number - before.number) / (after.number - before.number or 1)
        size = evidence.spec.global_batch_size if evidence.spec else after.global_batch_size
        if size and last - first == size * (after.number - before.number) and own - first != expected:
            numbers.append(step.number)
    return numbers


def _counted(evidence: Evidence) -> list[Step]:
    return [step for step in evidence.steps if step.consumed_samples is not None]


def changes(evidence: Evidence) -> Answer:
    """The samples or tokens of a step change inside the window of a log without a run."""
    if evidence.spec is not None:
        return None  # compared with what was asked for
    window = evidence.figures.window if evidence.figures else None
    inside = [step for step in evidence.steps if window is None or not window.span or window.holds(step.number)]
    for field, unit in (("global_batch_size", "samples"), ("tokens", "tokens")):
        values = [(step.number, value) for step in inside if (value := getattr(step, field)) is not None]
        other = next(((n, value) for n, value in values if abs(value - values[0][1]) > SAME_WORK * values[0][1]), None)
        if other is not None:
            return f"step {other[0]} has {other[1]} {unit}, step {values[0][0]} has {values[0][1]}"
    return None


def steps(evidence: Evidence) -> Answer:
    """The log announces another number of steps than asked for."""
    spec = evidence.spec
    if spec is None:
        return NO_SPEC
    if evidence.resumed:
        return NotPossible(reason="the training continues from a checkpoint")
    totals = [step.total for step in evidence.steps if step.total is not None]
    if not totals or evidence.first is None:
        return NotPossible(reason="the log does not announce the last step")
    expected = evidence.first + spec.steps - 1
    last = max(max(totals), evidence.steps[-1].number)
    return f"the log's last step is {last}, but {spec.steps} steps end with {expected}" if last != expected else None


def ranks(evidence: Evidence) -> Answer:
    """The framework runs on another number of GPUs (or devices) than asked for."""
    return _stated(evidence, "world_size", lambda spec: spec.gpus, "GPUs")


def stated_batch(evidence: Evidence) -> Answer:
    """The framework's configuration has another global batch size."""
    return _stated(evidence, "global_batch_size", lambda spec: spec.global_batch_size, "samples per step")


def micro_batch(evidence: Evidence) -> Answer:
    """The framework's configuration has another micro batch size or number of micro batches."""
    sizes = _stated(evidence, "micro_batch_size", lambda spec: spec.micro_batch_size, "samples per forward pass")
    number = _stated(evidence, "microbatches", lambda spec: spec.gradient_accumulation, "forward passes per step")
    return sizes if isinstance(sizes, str) or not isinstance(number, str) else number


def sequence(evidence: Evidence) -> Answer:
    """The framework's configuration has another sequence length."""
    return _stated(evidence, "sequence_length", lambda spec: spec.model.sequence_length, "tokens per sample")


def layers(evidence: Evidence) -> Answer:
    """The model has another number of layers."""
    return _stated(evidence, "layers", lambda spec: spec.model.layers, "layers")


def width(evidence: Evidence) -> Answer:
    """The model has another hidden size."""
    return _stated(evidence, "hidden_size", lambda spec: spec.model.hidden_size, "hidden units")


def shape(evidence: Evidence) -> Answer:
    """Another size of the model's layers differs: a field of its shape that decides the FLOPs."""
    if evidence.spec is None:
        return NO_SPEC
    stated = {name: unit for name, unit in SHAPE.items() if name in evidence.configured}
    if not stated:
        return NotPossible(reason="the final configuration states no sizes of layers")
    requested = sizes(evidence.spec.model)
    for name, unit in stated.items():
        value = evidence.configured[name]
        if (
            name in requested
            and value != requested[name]
            and not (name == "experts" and value <= 1 and not requested[name])
        ):
            return f"the framework states {value} {unit}, not the {requested[name]} asked for"
    return None


def sizes(model: ModelShape) -> dict[str, int]:
    """The sizes of a model's layers by field, with those that follow from others; a size that does not apply is left
    out. Experts and layers for multi-token prediction are 0 in a model without them.
    """
    by_field = {name: value for name in SHAPE if type(value := getattr(model, name)) is int}
    by_field.setdefault("experts", 0)
    by_field.setdefault("mtp_layers", 0)
    if not model.kv_rank and model.hidden_size % model.heads == 0:
        by_field.setdefault("head_width", model.hidden_size // model.heads)
    if model.experts:
        by_field.setdefault("moe_ffn_hidden_size", model.ffn_hidden_size)
        by_field.setdefault("shared_ffn_hidden_size", 0)
    return by_field


def vocabulary(evidence: Evidence) -> Answer:
    """The model has another vocabulary, apart from padding."""
    return _stated(
        evidence, "vocab_size", lambda spec: spec.model.vocab_size, "tokens in the vocabulary", tolerance=VOCABULARY
    )


def dtype(evidence: Evidence) -> Answer:
    """The model is computed in another data type."""
    if evidence.spec is None:
        return NO_SPEC
    requested = family(evidence.spec.dtype)
    stated = [event for event in _facts(evidence) if "dtype" in event.facts]
    if not stated or requested is None:
        return NotPossible(reason="the log does not state the data type")
    other = next((event for event in stated if family(str(event.facts["dtype"])) != requested), None)
    return f"the framework computes in {other.facts['dtype']}, not in {evidence.spec.dtype}" if other else None


def parameters(evidence: Evidence) -> Answer:
    """The model has another number of parameters than its shape."""
    spec = evidence.spec
    if spec is None:
        return NO_SPEC
    low, high = parameter_range(spec.model)
    p = spec.parallelism
    split = p.tp * p.pp * (p.ep or 1) > 1
    stated = [event for event in _facts(evidence) if isinstance(event.facts.get("parameters"), int)]
    whole = [event for event in stated if not (split and event.facts.get("local"))]
    if not whole:
        return NotPossible(reason="the log does not state the number of parameters")
    for event in whole:
        count = int(event.facts["parameters"])
        coarse = float(event.facts.get("resolution", 0.0)) + ROUNDED * count
        if count and not low - coarse <= count <= high + coarse:
            return (
                f"the model has {count / 1e9:.3g} billion parameters; its shape has {low / 1e9:.3g} to {high / 1e9:.3g}"
            )
    return None


def fallback(evidence: Evidence) -> Answer:
    """The framework took another configuration than the one asked for."""
    fallen = next((event for event in evidence.events if event.kind == FALLBACK), None)
    if fallen is None:
        return None
    requested, used = fallen.facts.get("asked"), fallen.facts.get("used")
    return f"the framework did not find the configuration {requested} and used {used}"


def family(name: str) -> str | None:
    """The data type in the name of a dtype (fp8 in fp8_cs and mxfp8); None for an unknown name."""
    return next((candidate for candidate in FAMILIES if name.lower().removeprefix("mx").startswith(candidate)), None)


def parameter_range(model: ModelShape) -> tuple[float, float]:
    """Least and largest number of parameters of a decoder of this shape.

    The least has a tied output embedding and a feed-forward part of two matrices, the largest an untied one and three.
    Biases and norms are less than 1 % of both. Of a shape that is known layer by layer, the least leaves out the layers
    for multi-token prediction.
    """
    if model.is_detailed:
        least = model.replace(mtp_layers=None)
        low, high = (sum(t.parameters for t in m.layer_terms(m.sequence_length)) for m in (least, model))
        return low, high
    attention = 2 * model.hidden_size**2 * (1 + model.query_groups / model.heads)
    sparse = model.layers // (model.moe_layer_every or 1) if model.experts else 0
    expert = (model.experts or 0) * (model.moe_ffn_hidden_size or model.ffn_hidden_size)
    shared = model.shared_ffn_hidden_size or 0
    units = (model.layers - sparse) * model.ffn_hidden_size + sparse * (expert + shared)
    router = sparse * (model.experts or 0) * model.hidden_size
    embedding = model.vocab_size * model.hidden_size
    rest = model.layers * attention + router
    low = rest + 2 * units * model.hidden_size + embedding
    high = rest + 3 * (units + sparse * model.ffn_hidden_size) * model.hidden_size + 2 * embedding
    return low, high


def _every_step(evidence: Evidence, field: str, asked: Callable[[RunSpec], int], unit: str) -> Answer:
    if evidence.spec is None:
        return NO_SPEC
    stated: Sequence[Step] = [step for step in evidence.steps if getattr(step, field) is not None]
    if not stated:
        return NotPossible(reason=f"the log does not print the {unit} of a step")
    expected = asked(evidence.spec)
    bad = next((step for step in stated if getattr(step, field) != expected), None)
    return f"step {bad.number} has {getattr(bad, field)} {unit}, not the {expected} asked for" if bad else None


def _stated(
    evidence: Evidence, name: str, asked: Callable[[RunSpec], int], unit: str, tolerance: float = 0.0
) -> Answer:
    if evidence.spec is None:
        return NO_SPEC
    values = [int(event.facts[name]) for event in _facts(evidence) if isinstance(event.facts.get(name), int)]
    values += [evidence.configured[name]] if name in evidence.configured else []
    if not values:
        return NotPossible(reason=f"neither the log nor the final configuration states the {unit}")
    expected = asked(evidence.spec)
    bad = next((value for value in values if abs(value - expected) > tolerance * expected), None)
    return f"the framework states {bad} {unit}, not the {expected} asked for" if bad is not None else None


def _facts(evidence: Evidence) -> list[Event]:
    return [event for event in evidence.events if event.kind == FACT]


OTHER_JOB = "Compare the specification (`llmbx show`) with the framework's configuration at the start of the log."

CHECKS = (
    Check(
        "batch", "The global batch size of every step.",
        "Another job: a step has more or fewer samples than asked for.", OTHER_JOB, "invalid", batch,
    ),
    Check(
        "work-missing", "The batch, consumed samples and tokens of each step, if the format always prints them.",
        "Fewer than 80 % of the steps have one of them: nothing shows how much work a step was.",
        "Look at the log: does another program write it, or is its format new?", "not comparable", missing,
    ),
    Check(
        "tokens", "The tokens of every step.", "Another job: another sequence length or batch.", OTHER_JOB, "invalid",
        tokens,
    ),
    Check(
        "work-changes", "The samples and tokens of the window's steps, in a log that no run of llmbx wrote.",
        "They differ by more than 5 %: the mean is that of steps with different work.",
        "Choose a --window in which they are the same.", "not comparable", changes,
    ),
    Check(
        "consumed-samples", "How much the consumed samples grow from step to step.",
        "A step reads more or fewer samples than its batch.", "Check the batch, and whether steps are missing.",
        "invalid", consumed,
    ),
    Check(
        "steps", "The last step that the log announces, and the last that it has.",
        "Another job: more or fewer steps than asked for.", OTHER_JOB, "invalid", steps,
    ),
    Check(
        "ranks", "The number of ranks or devices in the log and in the configuration.",
        "Another job: GPUs are missing, or ranks train by themselves.", "Check the launcher and the nodes.", "invalid",
        ranks, any_order=True,
    ),
    Check(
        "stated-batch", "The global batch size in the framework's configuration.", "Another job.", OTHER_JOB, "invalid",
        stated_batch,
    ),
    Check(
        "micro-batch", "The micro batch size, and the forward passes per step, in the configuration.",
        "The same samples, but another way to compute them: other speed and memory.", OTHER_JOB, "invalid", micro_batch,
    ),
    Check("sequence", "The sequence length in the configuration.", "Another job.", OTHER_JOB, "invalid", sequence),
    Check("layers", "The number of layers in the configuration.", "Another model.", OTHER_JOB, "invalid", layers),
    Check("hidden-size", "The hidden size in the configuration.", "Another model.", OTHER_JOB, "invalid", width),
    Check(
        "shape", "Heads, widths, experts and layers for multi-token prediction in the final configuration.",
        "Another model: its FLOPs are not those of the result.", OTHER_JOB, "invalid", shape,
    ),
    Check(
        "vocabulary", "The size of the vocabulary, within 5 % for padding.", "Another model.", OTHER_JOB, "invalid",
        vocabulary,
    ),
    Check(
        "parameters", "The number of parameters that the log states, against the model's shape.",
        "Another model: layers, experts or widths differ.", OTHER_JOB, "invalid", parameters,
    ),
    Check(
        "dtype", "The data type in the configuration.",
        "Another job: the peak and the speed are those of another type.", OTHER_JOB, "invalid", dtype,
    ),
    Check(
        "fallback", "Lines such as `not found; falling back to`.",
        "The framework used another configuration than the one asked for.",
        "Use an image that has the configuration, or compare the two.", "not comparable", fallback,
    ),
)  # fmt: skip
